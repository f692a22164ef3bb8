"""The histories of the simulation on a real etcd: every invariant is true, and all results are as in memory.

A seed identifies a random history, which is played on both. All its states and all keys at the end are equal, byte by
byte. The histories of the findings check themselves.
"""

import random
import re
from collections.abc import Iterator

import pytest

from elasticjob_api.records import SpecRecord
from elasticjob_api.rendezvous_state import RendezvousState
from testing.servers.etcds import OwnEtcd, own_etcd
from tests.integration.rendezvous.real_store import RealStore
from tests.unit.rendezvous import test_findings
from tests.unit.rendezvous.sim.play import Play
from tests.unit.rendezvous.sim.store import SimStore
from tests.unit.rendezvous.test_random_histories import play
from tests.unit.rendezvous.test_state_machine import AgentsAlone, JobMachine, WithAnOperator

pytestmark = pytest.mark.etcd

SEEDS = range(3)
MANY = range(1000, 1150)
FINDINGS = {**test_findings.ALONE, **test_findings.WIPED}
EVERY_TIME = re.compile(r"(1|8|9|21|25): |a done record is|earlier charges|a restored store has an older")
"""Findings whose histories are played in each run; the others run at night."""

Outcome = tuple[list[RendezvousState], dict[str, bytes]]


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnEtcd]:
    """Return an etcd that a history may wipe."""
    with own_etcd(tmp_path_factory.mktemp("replay")) as made:
        yield made


@pytest.fixture
def real(etcd: OwnEtcd) -> Iterator[RealStore]:
    """Return this etcd as a store of the simulation."""
    store = RealStore(etcd)
    yield store
    store.close()


def played(kind: type[JobMachine], seed: int, store: SimStore) -> Outcome:
    """Return all states of a history, and the keys at its end."""
    machine, history = kind(), list[str]()
    machine.store = store
    try:
        play(machine, random.Random(seed), history)
    except AssertionError as error:
        error.add_note("\n".join([f"seed {seed}:", *history]))
        raise
    return machine.job.checker.states, {kv.key: kv.value for kv in store.range("").kvs}


def both(seed: int) -> list[tuple[type[JobMachine], int]]:
    return [(AgentsAlone, seed), (WithAnOperator, seed)]


@pytest.mark.parametrize(
    ("kind", "seed"),
    [
        *(pytest.param(*case) for seed in SEEDS for case in both(seed)),
        *(pytest.param(*case, marks=pytest.mark.nightly) for seed in MANY for case in both(seed)),
    ],
)
def test_a_random_history_on_a_real_etcd_is_the_one_in_memory(
    kind: type[JobMachine], seed: int, real: RealStore
) -> None:
    # From the same revision: in a wiped store it decides whether a pod's bootstrap seems to be of the new spec.
    memory = SimStore(revision=real.revision)
    assert played(kind, seed, real) == played(kind, seed, memory)


@pytest.mark.parametrize(
    "history",
    [
        pytest.param(history, id=name, marks=() if EVERY_TIME.match(name) else pytest.mark.nightly)
        for name, history in FINDINGS.items()
    ],
)
def test_a_findings_history_ends_correctly_on_a_real_etcd_too(history: str, real: RealStore) -> None:
    made = Play(SpecRecord(min=1, max=2 if history in test_findings.WIPED.values() else 3, desired=2), real)
    made.run("start; start; settle; is active 1")
    made.run(history)

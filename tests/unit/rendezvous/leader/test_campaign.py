"""A campaign in a new job opens the first round in the same transaction, and nowhere else."""

import itertools
from dataclasses import replace

import pytest

from elasticjob_agent.rendezvous.leader.campaign import Campaign
from elasticjob_agent.rendezvous.protocol import transactions
from elasticjob_agent.rendezvous.protocol.transactions import SessionIdentity
from elasticjob_api import records, rendezvous_state
from elasticjob_api.records import ExpectedSlots, SpecRecord
from elasticjob_api.rendezvous_state import Leader, Member, RendezvousState, RoundPhase
from elasticjob_api.rendezvous_view import RendezvousView, parse_view
from elasticjob_api.runtime_config import encode_runtime_config, runtime_config_of
from elasticjob_etcd.interface import Delete, Put, Txn
from elasticjob_etcd.memory.client import InMemoryEtcd
from elasticjob_etcd.memory.store import InMemoryStore
from tests.unit.rendezvous.views import KEYS, a_node

SPEC = SpecRecord(min=1, max=2, desired=2, restart_id="r7", first_restarts=2)
ME = Member(0, "0000000a")


class Scene:
    """A store in which one node has joined, and no agent has campaigned yet."""

    def __init__(self, spec: SpecRecord = SPEC) -> None:
        self.store = InMemoryStore()
        self.me = SessionIdentity(KEYS, ME, self.store.grant(6.0).id)
        self.put(KEYS.spec, records.encode(spec))
        self.put(self.me.node_key, records.encode(a_node(0, lease=self.me.lease)), self.me.lease)

    def put(self, key: str, value: bytes, lease: int = 0) -> None:
        assert self.store.txn(Txn((), (Put(key, value, lease),))).succeeded

    def delete(self, key: str) -> None:
        self.store.txn(Txn((), (Delete(key),)))

    async def campaign(self, *, is_new: bool = True) -> RendezvousState | None:
        digits = itertools.count(1)
        candidate = Campaign(InMemoryEtcd(self.store), self.me, "10.0.0.1:7", lambda: f"{next(digits):08x}")
        return await candidate.run(is_new=is_new)

    @property
    def leader(self) -> Leader | None:
        kv = self.store.get(KEYS.leader)
        return None if kv is None else rendezvous_state.decode_leader(kv.value)

    def view(self) -> RendezvousView:
        return parse_view(KEYS, self.store.range(KEYS.everything).kvs)


async def test_in_a_new_job_the_leader_key_and_the_first_state_are_written_in_one_revision() -> None:
    scene = Scene()
    opened = await scene.campaign()
    view, kv = scene.view(), scene.store.get(KEYS.leader)
    assert opened == view.state
    assert opened is not None
    assert (opened.phase, opened.round, opened.restarts, opened.restart_id) == (RoundPhase.FORMING, 1, 2, "r7")
    assert (view.runtime_config, len(view.link_secret or b"")) == (runtime_config_of(SPEC), 32)
    assert scene.leader == Leader(ME, "10.0.0.1:7")
    assert kv is not None
    assert kv.lease == scene.me.lease
    assert {kv.mod_revision, view.state_revision, view.runtime_config_revision, view.link_secret_revision} == {
        kv.mod_revision
    }


EXISTS = {
    "a state": (
        KEYS.rendezvous_state,
        rendezvous_state.encode_state(RendezvousState(phase=RoundPhase.ACTIVE, round=3, nonce="n", members=(ME,))),
    ),
    "an unreadable state": (KEYS.rendezvous_state, b"?"),
    "a key of the links": (KEYS.link_secret, b"1 " + b"ab" * 32),
}


@pytest.mark.parametrize("name", EXISTS)
async def test_after_an_earlier_push_or_state_only_the_leader_key_is_written(name: str) -> None:
    scene = Scene()
    key, value = EXISTS[name]
    scene.put(key, value)
    assert await scene.campaign() is None
    kv = scene.store.get(key)
    assert (kv.value if kv else None, scene.leader) == (value, Leader(ME, "10.0.0.1:7"))
    assert scene.view().runtime_config is None


SPECS = {
    "suspended": replace(SPEC, suspended=True),
    "written again after a wipe": replace(SPEC, first_round=1001),
}


@pytest.mark.parametrize("name", SPECS)
async def test_such_a_spec_opens_no_round_at_once(name: str) -> None:
    scene = Scene(SPECS[name])
    assert await scene.campaign() is None
    assert (scene.view().state, scene.leader) == (None, Leader(ME, "10.0.0.1:7"))


async def test_an_unreadable_spec_opens_no_round() -> None:
    scene = Scene()
    scene.put(KEYS.spec, b"?")
    assert await scene.campaign() is None
    assert (scene.view().state, scene.leader) == (None, Leader(ME, "10.0.0.1:7"))


async def test_without_a_spec_no_round_is_opened() -> None:
    scene = Scene()
    scene.delete(KEYS.spec)
    assert await scene.campaign() is None
    assert scene.view().state is None


async def test_an_agent_that_has_seen_a_state_opens_no_round_where_it_is_gone() -> None:
    scene = Scene()
    assert await scene.campaign(is_new=False) is None
    assert (scene.view().state, scene.leader) == (None, Leader(ME, "10.0.0.1:7"))


async def test_a_spec_that_an_operator_has_emptied_opens_no_round() -> None:
    scene = Scene()
    scene.put(KEYS.expected, records.encode(ExpectedSlots()))
    assert await scene.campaign() is None
    assert (scene.view().state, scene.leader) == (None, Leader(ME, "10.0.0.1:7"))


async def test_expected_slots_of_an_operator_do_not_prevent_the_first_round() -> None:
    scene = Scene(replace(SPEC, operator="elasticjob-operator"))
    scene.put(KEYS.expected, records.encode(ExpectedSlots()))
    assert await scene.campaign() is not None


async def test_an_existing_runtime_config_is_written_again() -> None:
    scene = Scene()
    scene.put(KEYS.runtime_config, encode_runtime_config(replace(runtime_config_of(SPEC), max_restarts=77)))
    assert await scene.campaign() is not None
    assert scene.view().runtime_config == runtime_config_of(SPEC)


async def test_nothing_is_written_where_another_agent_leads() -> None:
    scene = Scene()
    other = Member(1, "0000000b")
    scene.put(KEYS.leader, rendezvous_state.encode_leader(Leader(other, "")))
    assert await scene.campaign() is None
    assert (scene.view().state, scene.leader) == (None, Leader(other, ""))


async def test_an_agent_without_its_key_writes_nothing() -> None:
    scene = Scene()
    scene.store.expire(scene.me.lease)
    assert await scene.campaign() is None
    assert (scene.view().state, scene.leader) == (None, None)


def test_a_spec_that_has_changed_since_its_read_opens_no_round() -> None:
    scene = Scene()
    kv = scene.store.get(KEYS.spec)
    assert kv is not None
    scene.put(KEYS.spec, records.encode(replace(SPEC, desired=1)))
    opened = RendezvousState(phase=RoundPhase.FORMING, round=1, nonce="n")
    first = transactions.FirstState(
        opened, kv.mod_revision, transactions.Push(runtime_config_of(SPEC), b"k" * 32), is_operated=False
    )
    assert not scene.store.txn(transactions.campaign(scene.me, "", first)).succeeded
    assert (scene.view().state, scene.leader) == (None, None)

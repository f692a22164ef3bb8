"""The operator's memory of etcd: the spec of an expelled job, reduced failures, and no undecoded records."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import pytest

from elasticjob_api.records import WorkerFailure, encode
from elasticjob_etcd.interface import Delete, Put, Txn
from elasticjob_etcd.memory.client import InMemoryEtcd, InMemoryStore
from elasticjob_operator.informers.rendezvous_informer import RendezvousInformer
from elasticjob_operator.model.job_key import JobKey
from elasticjob_operator.policy.etcd.quota import FAILURES_KEPT_WHOLE, KIB, MIB, REDUCED, EtcdQuota, allowed_bytes
from testing import builders
from testing.waiting import aeventually

KEY, OTHER = JobKey("n", "j", "uid"), JobKey("n", "k", "uid-2")
KEYS, OTHER_KEYS = KEY.keys("c"), OTHER.keys("c")
TINY = EtcdQuota(stored=64 * MIB, written=256 * MIB, memory=200 * KIB, bound=100 * KIB)


class Rig:
    """A rendezvous informer of a store, and the reconciles that it requests."""

    def __init__(self) -> None:
        self.store = InMemoryStore()
        self.allowed: dict[JobKey, EtcdQuota] = {KEY: TINY}
        self.changed: list[JobKey] = []
        self.lists = 0
        self.rendezvous = RendezvousInformer(
            InMemoryEtcd(self.store),
            "c",
            on_change=self.changed.append,
            on_listed=self._listed,
            allowed=self.allowed.get,
        )

    def _listed(self) -> None:
        self.lists += 1

    def put(self, key: str, value: bytes) -> None:
        self.store.txn(Txn((), (Put(key, value),)))

    async def seen(self) -> None:
        """Wait until every write was delivered."""
        await aeventually(lambda: self.rendezvous.revision == self.store.revision)

    def fill(self, keys: int = 40) -> None:
        for slot in range(keys):
            value = encode(builders.node(slot, pod=f"j-{slot}-a", host="h" * 8000).record)
            self.put(KEYS.node(slot, "00000001"), value)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        following = asyncio.create_task(self.rendezvous.run())
        try:
            await aeventually(lambda: self.rendezvous.listed)
            yield
        finally:
            following.cancel()
            await asyncio.wait({following})


@pytest.fixture
def rig() -> Rig:
    made = Rig()
    made.put(KEYS.spec, encode(builders.record(0)))
    made.put(OTHER_KEYS.spec, encode(builders.record()))
    return made


async def expelled(rig: Rig) -> None:
    await aeventually(lambda: rig.rendezvous.view(KEY).quota_violation)
    view = rig.rendezvous.view(KEY)
    assert "of the operator's memory, which its size allows" in view.quota_violation
    assert (view.nodes, view.empty, view.is_final) == ({}, False, True)
    assert view.spec is not None, "it says whose keys these are"
    assert rig.rendezvous.view(OTHER).quota_violation == ""
    assert KEY in set(rig.rendezvous.keys())


async def test_only_the_spec_of_an_expelled_job_remains(rig: Rig) -> None:
    async with rig.running():
        rig.changed.clear()
        rig.fill()
        await rig.seen()
        await expelled(rig)
        assert KEY in rig.changed, "it is looked at"


async def test_only_the_spec_remains_when_a_new_process_lists_the_job(rig: Rig) -> None:
    rig.fill()
    async with rig.running():
        assert "of the operator's memory" in rig.rendezvous.view(KEY).quota_violation
        assert rig.rendezvous.view(KEY).nodes == {}
        assert rig.rendezvous.view(OTHER).spec is not None


async def test_a_job_is_no_longer_expelled_after_the_deletion_of_its_keys(rig: Rig) -> None:
    async with rig.running():
        rig.fill()
        await rig.seen()
        rig.store.txn(Txn((), (Delete(KEYS.everything, prefix=True),)))
        await rig.seen()
        assert rig.rendezvous.view(KEY).quota_violation == ""
        assert rig.rendezvous.view(KEY).empty
        assert KEY not in set(rig.rendezvous.keys())


async def test_records_are_listed_again_when_the_quota_admits_them(rig: Rig) -> None:
    """The operator lists the job's pods later than their keys."""
    async with rig.running():
        rig.fill()
        await rig.seen()
        await expelled(rig)
        rig.rendezvous.allow(KEY, allowed_bytes(40, 8))
        assert rig.rendezvous.view(KEY).quota_violation == ""
        lists = rig.lists
        rig.put(OTHER_KEYS.rendezvous_state, b"whatever comes next")
        await aeventually(lambda: rig.lists > lists)
        assert len(rig.rendezvous.view(KEY).nodes) == 40


@pytest.mark.parametrize("listed", [True, False])
async def test_the_first_of_many_long_failures_are_cached_whole_and_the_others_reduced(
    rig: Rig, *, listed: bool
) -> None:
    rig.allowed[KEY] = allowed_bytes(20, 8)
    many = FAILURES_KEPT_WHOLE + 10
    long = WorkerFailure(incarnation="00000001", rank=3, exit_code=7, message="m" * 1000, stderr="\x01" * 4000)

    def fail() -> None:
        for rank in range(many):
            rig.put(KEYS.failure(1, 2, rank), encode(long))

    fail() if listed else None
    async with rig.running():
        None if listed else fail()
        await rig.seen()
        failures = [entry.failure for entry in rig.rendezvous.view(KEY).failures.values()]
        assert len(failures) == many
        assert failures.count(long) == FAILURES_KEPT_WHOLE
        rest = [failure for failure in failures if failure != long]
        assert {(failure.exit_code, failure.rank, failure.stderr) for failure in rest} == {(7, 3, "")}
        assert all(0 < len(failure.message) < len(encode(failure)) <= REDUCED for failure in rest)


def raw(rendezvous: RendezvousInformer) -> Callable[[str], bytes]:
    return lambda key: rendezvous._mirror.items[key].value  # reads private fields, because their memory is the subject


async def test_no_record_keeps_its_bytes(rig: Rig) -> None:
    rig.allowed[KEY] = allowed_bytes(1, 8)
    async with rig.running():
        rig.put(KEYS.node(0, "00000001"), encode(builders.node(0).record))
        rig.put(KEYS.report(0, "00000001"), encode(builders.report(0)))
        rig.put(KEYS.samples(0, "00000001"), encode(builders.samples()))
        await rig.seen()
        keys = (KEYS.spec, KEYS.node(0, "00000001"), KEYS.report(0, "00000001"), KEYS.samples(0, "00000001"))
        assert [*map(raw(rig.rendezvous), keys)] == [b""] * 4
        view = rig.rendezvous.view(KEY)
        assert (len(view.nodes), len(view.reports), len(view.samples)) == (1, 1, 1)

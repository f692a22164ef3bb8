"""Members cut off from the store for a while: healthy workers go on, and nothing is charged."""

from collections.abc import AsyncIterator

import pytest

from elasticjob_agent.rendezvous.protocol.member_plan import Workers
from elasticjob_api.exit_codes import ExitCode
from elasticjob_api.records import SpecRecord
from elasticjob_api.rendezvous_state import Cause
from elasticjob_etcd.errors import RequestRejected
from elasticjob_etcd.interface import Put, Txn, TxnResult
from elasticjob_etcd.memory.client import InMemoryEtcd, InMemoryStore
from testing.waiting import aeventually
from tests.integration.rendezvous.member_group import GroupMember, MemberGroup


@pytest.fixture
async def patient() -> AsyncIterator[MemberGroup]:
    """A crew that gives its lease up after 1 s, over a store that keeps it for a minute: as after its own outage."""
    store = InMemoryStore(min_ttl_s=60.0)
    crew = MemberGroup(
        lambda: InMemoryEtcd(store), "/test/patient/", SpecRecord(min=1, max=2, desired=2), lease_ttl_s=1.0
    )
    yield crew
    await crew.close()


def cut_off(*mates: GroupMember) -> None:
    for mate in mates:
        assert isinstance(mate.etcd, InMemoryEtcd)
        mate.etcd.disconnect()


def connect(*mates: GroupMember) -> None:
    for mate in mates:
        assert isinstance(mate.etcd, InMemoryEtcd)
        mate.etcd.reconnect()


def is_lost(mate: GroupMember) -> bool:
    return mate.member.session is not None and mate.member.session.keeper.lost.is_set()


async def test_an_outage_longer_than_the_lease_costs_nothing_where_the_lease_outlives_it(patient: MemberGroup) -> None:
    mates = patient.join(2)
    await patient.running(1)
    cut_off(*mates)
    await aeventually(lambda: all(is_lost(mate) for mate in mates), what="all have given up their leases")
    connect(*mates)
    await aeventually(lambda: not any(is_lost(mate) for mate in mates), what="all are back")
    assert [mate.workers.stops for mate in mates] == [0, 0]
    assert await patient.finish(*mates) == [0, 0]
    assert [mate.workers.rounds for mate in mates] == [[1], [1]]


async def test_a_stall_of_etcd_that_ends_the_lease_of_one_member_alone_costs_nothing() -> None:
    """Leases are refreshed at different moments: a stall a little shorter than a lease ends some and not others."""
    store = InMemoryStore(min_ttl_s=60.0)
    crew = MemberGroup(
        lambda: InMemoryEtcd(store), "/test/stalled/", SpecRecord(min=1, max=2, desired=2), lease_ttl_s=4.0
    )
    mates = crew.join(2)
    await crew.running(1)
    closer = await crew.leader()
    (other,) = [mate for mate in mates if mate is not closer]
    cut_off(*mates)
    assert closer.member.session is not None
    keeper = closer.member.session.keeper
    await aeventually(lambda: keeper.stalled_at_s > 0.0, what="the closer notices that etcd stalls")
    ended = other.lease
    store.revoke(ended)
    connect(*mates)
    await aeventually(lambda: other.lease != ended and not is_lost(other), what="the other is back")
    assert not is_lost(closer)
    assert [mate.workers.stops for mate in mates] == [0, 0]
    assert await crew.finish(*mates) == [0, 0]
    assert [(mate.workers.rounds, mate.workers.stops) for mate in mates] == [([1], 0), ([1], 0)]
    await crew.close()


async def test_a_failure_during_an_outage_is_charged_after_it(patient: MemberGroup) -> None:
    mates = patient.join(2)
    await patient.running(1)
    cut_off(*mates)
    mates[0].workers.fail()
    await aeventually(lambda: is_lost(mates[0]), what="its lease is given up")
    connect(*mates)
    world = await patient.running(2)
    assert (world.restarts, world.node_losses) == (1, 0)


async def test_who_is_told_to_leave_during_an_outage_tells_its_peers_after_it_while_it_still_stops() -> None:
    store = InMemoryStore()
    crew = MemberGroup(
        lambda: InMemoryEtcd(store), "/test/leaving/", SpecRecord(min=1, max=2, desired=2), lease_ttl_s=60.0
    )
    crew.join(2)
    stayer, leaver = crew.members_by_rank(await crew.running(1))
    cut_off(leaver)
    leaver.workers.slow = True
    leaver.member.request_leave()
    await aeventually(lambda: leaver.workers.phase is Workers.STOPPING, what="its workers stop all the same")
    assert stayer.workers.stops == 0
    connect(leaver)
    await aeventually(lambda: stayer.workers.phase is Workers.NONE, what="the other hears of it")
    assert not is_lost(leaver)
    leaver.workers.let_stop()
    assert await leaver.end() == ExitCode.LEFT
    assert (await crew.running(2, stayer)).cause is Cause.NODE_LEFT
    assert await crew.finish(stayer) == [0]
    await crew.close()


async def test_who_comes_back_after_the_end_does_not_begin_the_job_again() -> None:
    store = InMemoryStore(min_ttl_s=1.0)
    crew = MemberGroup(lambda: InMemoryEtcd(store), "/test/late/", SpecRecord(min=1, max=2, desired=2), lease_ttl_s=1.0)
    mates = crew.join(2)
    await crew.running(1)
    closer = await crew.leader()
    (other,) = [mate for mate in mates if mate is not closer]
    cut_off(other)
    await crew.running(2, closer)
    assert await crew.finish(closer) == [0]
    assert other.workers.phase is Workers.RUNNING
    connect(other)
    assert await other.end() == ExitCode.JOB_DELETED
    assert store.range("").kvs == ()
    await crew.close()


class FullEtcd(InMemoryEtcd):
    """A store that takes no world after the first."""

    async def txn(self, txn: Txn) -> TxnResult:
        world = next((op.key for op in txn.success if isinstance(op, Put) and op.key.endswith("/ctl/world")), None)
        if world is not None and await self.get(world) is not None:
            raise RequestRejected("transaction: mvcc: database space exceeded")
        return await super().txn(txn)


async def test_a_closer_that_cannot_go_on_says_why_and_is_not_silent() -> None:
    store = InMemoryStore(min_ttl_s=1.0)
    crew = MemberGroup(lambda: FullEtcd(store), "/test/full/", SpecRecord(min=1, max=1, desired=1), lease_ttl_s=1.0)
    (mate,) = crew.join()
    await aeventually(mate.task.done, within_s=5)
    with pytest.raises(RequestRejected, match="space exceeded"):
        mate.task.result()
    await crew.close()

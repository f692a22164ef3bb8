"""Members without a connection to the store for a while: healthy workers continue, and nothing is charged."""

import logging
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from elasticjob_agent.rendezvous.protocol.member_plan import Workers
from elasticjob_api.exit_codes import ExitCode
from elasticjob_api.holdings import HoldingsRecord
from elasticjob_api.records import SpecRecord
from elasticjob_api.rendezvous_state import Cause, RoundPhase, encode_state
from elasticjob_etcd.errors import RequestRejected
from elasticjob_etcd.interface import Put, Txn, TxnResult
from elasticjob_etcd.memory.client import InMemoryEtcd, InMemoryStore
from testing.waiting import aeventually
from tests.integration.rendezvous.member_group import GroupMember, MemberGroup


@pytest.fixture
async def long_leases() -> AsyncIterator[MemberGroup]:
    """Return members that give up a lease after 1 s, over a store that has it for a minute, as after its own outage."""
    store = InMemoryStore(min_ttl_s=60.0)
    group = MemberGroup(
        lambda: InMemoryEtcd(store), "/test/patient/", SpecRecord(min=1, max=2, desired=2), lease_ttl_s=1.0
    )
    yield group
    await group.close()


@pytest.fixture
async def short_leases() -> AsyncIterator[MemberGroup]:
    """Return members whose leases end after a second without an answer."""
    store = InMemoryStore()
    spec = SpecRecord(min=1, max=2, desired=2)
    group = MemberGroup(lambda: InMemoryEtcd(store), "/test/short/", spec, lease_ttl_s=1.0)
    yield group
    await group.close()


def cut_off(*peers: GroupMember) -> None:
    for peer in peers:
        assert isinstance(peer.etcd, InMemoryEtcd)
        peer.etcd.disconnect()


def connect(*peers: GroupMember) -> None:
    for peer in peers:
        assert isinstance(peer.etcd, InMemoryEtcd)
        peer.etcd.reconnect()


def is_lost(peer: GroupMember) -> bool:
    return peer.member.session is not None and peer.member.session.keeper.lost.is_set()


async def test_an_outage_longer_than_the_lease_costs_nothing_where_the_lease_outlives_it(
    long_leases: MemberGroup,
) -> None:
    peers = long_leases.join(2)
    await long_leases.running(1)
    cut_off(*peers)
    await aeventually(lambda: all(is_lost(peer) for peer in peers), what="all have given up their leases")
    connect(*peers)
    await aeventually(lambda: not any(is_lost(peer) for peer in peers), what="all have rejoined")
    assert [peer.workers.stops for peer in peers] == [0, 0]
    assert await long_leases.finish(*peers) == [0, 0]
    assert [peer.workers.rounds for peer in peers] == [[1], [1]]


async def test_a_stall_of_etcd_that_ends_one_lease_costs_nothing() -> None:
    """Leases are renewed at different moments: a stall a little shorter than a lease ends only some of them."""
    store = InMemoryStore(min_ttl_s=60.0)
    group = MemberGroup(
        lambda: InMemoryEtcd(store), "/test/stalled/", SpecRecord(min=1, max=2, desired=2), lease_ttl_s=4.0
    )
    peers = group.join(2)
    await group.running(1)
    leader = await group.leader()
    (other,) = [peer for peer in peers if peer is not leader]
    cut_off(*peers)
    assert leader.member.session is not None
    keeper = leader.member.session.keeper
    await aeventually(lambda: keeper.stalled_at_s > 0.0, what="the leader notices that etcd stalls")
    ended = other.lease
    store.revoke(ended)
    connect(*peers)
    await aeventually(lambda: other.lease != ended and not is_lost(other), what="the other has rejoined")
    assert not is_lost(leader)
    assert [peer.workers.stops for peer in peers] == [0, 0]
    assert await group.finish(*peers) == [0, 0]
    assert [(peer.workers.rounds, peer.workers.stops) for peer in peers] == [([1], 0), ([1], 0)]
    await group.close()


async def test_a_failure_during_an_outage_is_charged_after_it(long_leases: MemberGroup) -> None:
    peers = long_leases.join(2)
    await long_leases.running(1)
    cut_off(*peers)
    peers[0].workers.fail()
    await aeventually(lambda: is_lost(peers[0]), what="its lease is given up")
    connect(*peers)
    state = await long_leases.running(2)
    assert (state.restarts, state.node_losses) == (1, 0)


async def test_a_member_that_leaves_during_an_outage_reports_it_after_the_outage_while_it_stops() -> None:
    store = InMemoryStore()
    group = MemberGroup(
        lambda: InMemoryEtcd(store), "/test/leaving/", SpecRecord(min=1, max=2, desired=2), lease_ttl_s=60.0
    )
    group.join(2)
    stayer, leaver = group.members_by_rank(await group.running(1))
    cut_off(leaver)
    leaver.workers.slow = True
    leaver.member.request_leave()
    await aeventually(lambda: leaver.workers.phase is Workers.STOPPING, what="its workers stop all the same")
    assert stayer.workers.stops == 0
    connect(leaver)
    await aeventually(lambda: stayer.workers.phase is Workers.NONE, what="the other stops its workers")
    assert not is_lost(leaver)
    leaver.workers.let_stop()
    assert await leaver.end() == ExitCode.LEFT
    assert (await group.running(2, stayer)).cause is Cause.NODE_LEFT
    assert await group.finish(stayer) == [0]
    await group.close()


async def test_a_member_that_returns_after_the_end_does_not_begin_the_job_again() -> None:
    store = InMemoryStore(min_ttl_s=1.0)
    group = MemberGroup(
        lambda: InMemoryEtcd(store), "/test/late/", SpecRecord(min=1, max=2, desired=2), lease_ttl_s=1.0
    )
    peers = group.join(2)
    await group.running(1)
    leader = await group.leader()
    (other,) = [peer for peer in peers if peer is not leader]
    cut_off(other)
    await group.running(2, leader)
    assert await group.finish(leader) == [0]
    assert other.workers.phase is Workers.RUNNING
    connect(other)
    assert await other.end() == ExitCode.JOB_DELETED
    assert store.range("").kvs == ()
    await group.close()


class FullEtcd(InMemoryEtcd):
    """An etcd that refuses every rendezvous state after the first."""

    async def txn(self, txn: Txn) -> TxnResult:
        state = next((op.key for op in txn.success if isinstance(op, Put) and op.key.endswith("/ctl/world")), None)
        if state is not None and await self.get(state) is not None:
            raise RequestRejected("transaction: mvcc: database space exceeded")
        return await super().txn(txn)


async def test_a_leader_that_cannot_write_ends_with_the_error() -> None:
    store = InMemoryStore(min_ttl_s=1.0)
    group = MemberGroup(lambda: FullEtcd(store), "/test/full/", SpecRecord(min=1, max=1, desired=1), lease_ttl_s=1.0)
    (peer,) = group.join()
    await aeventually(peer.task.done, within_s=5)
    with pytest.raises(RequestRejected, match="space exceeded"):
        peer.task.result()
    await group.close()


async def test_a_node_with_steps_reports_its_leave_when_etcd_answers_again(long_leases: MemberGroup) -> None:
    """It has steps that others may need, so it does not end with its workers."""
    peers = long_leases.join(2)
    await long_leases.running(1)
    leaver, stayer = peers
    leaver.keep.record, leaver.keep.is_needed, leaver.keep.linger_s = HoldingsRecord(port=7), True, 3600.0
    cut_off(leaver)
    leaver.member.request_leave()
    await aeventually(lambda: leaver.workers.phase is Workers.NONE, what="its workers have stopped")
    connect(leaver)
    await long_leases.running(2, stayer)
    assert not leaver.task.done()
    leaver.keep.is_needed = False
    leaver.keep.on_change()
    assert await leaver.end() == ExitCode.LEFT


@pytest.mark.parametrize("cut_first", [True, False], ids=["before the leave", "after it is reported"])
async def test_a_drain_goes_on_while_etcd_does_not_answer(
    short_leases: MemberGroup, caplog: pytest.LogCaptureFixture, *, cut_first: bool
) -> None:
    """The last step of a suspended job is being written to disk; the agent must not give its memory up."""
    (peer,) = short_leases.join(1)
    running = await short_leases.running(1)
    peer.keep.record, peer.keep.persists, peer.keep.is_needed = HoldingsRecord(port=7), True, True
    suspended = replace(running, phase=RoundPhase.SUSPENDED, nonce="f" * 8, cause=Cause.SUSPENDED)
    key = short_leases.keys.rendezvous_state
    await short_leases.observer.txn(Txn((), (Put(key, encode_state(suspended)),)))
    session = peer.member.session
    assert session is not None
    sealed = short_leases.keys.all_holdings

    async def has_sealed() -> bool:
        return any(suspended.nonce.encode() in kv.value for kv in (await short_leases.observer.range(sealed)).kvs)

    _: bool = await aeventually(has_sealed, what="its last steps are reported")
    if not cut_first:
        peer.member.request_leave()
        await aeventually(lambda: session.node.leaving, what="its leave is reported")
    cut_off(peer)
    peer.member.request_leave()
    await aeventually(lambda: is_lost(peer), what="it has given up its lease")
    assert not peer.task.done()
    caplog.set_level(logging.INFO)
    connect(peer)
    await aeventually(lambda: "continued without this session" in caplog.text, what="its session is over")
    assert not peer.task.done()
    peer.keep.is_needed = False
    peer.keep.on_change()
    assert await peer.end() == ExitCode.LEFT

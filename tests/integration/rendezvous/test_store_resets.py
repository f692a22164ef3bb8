"""Real members over a real etcd that is restarted, wiped or restored: healthy workers are never touched."""

import contextlib
import shutil
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import grpc
import pytest

from elasticjob_agent.rendezvous.protocol.member_plan import Workers
from elasticjob_api import records
from elasticjob_api.exit_codes import ExitCode
from elasticjob_api.records import SpecRecord, Tombstone, TombstoneReason
from elasticjob_api.rendezvous_state import RoundPhase
from elasticjob_etcd.client import EtcdClient
from elasticjob_etcd.embedded import EmbeddedEtcd
from elasticjob_etcd.errors import EtcdError
from elasticjob_etcd.interface import Put, Txn
from elasticjob_etcd.messages import rpc
from testing.network.proxy import proxy
from testing.waiting import aeventually
from tests.integration.rendezvous.member_group import GroupMember, MemberGroup

pytestmark = pytest.mark.etcd


class Site:
    """A folder, the etcd that runs in it, always at the same port, and two members of a job."""

    def __init__(self, folder: Path, server: EmbeddedEtcd) -> None:
        self.folder = folder
        self.server = server
        self.port = int(server.endpoint.targets[0].rpartition(":")[2])
        self.group = MemberGroup(self._client, "/test/wipes/", SpecRecord(min=1, max=2, desired=2), lease_ttl_s=2.0)

    def _client(self) -> EtcdClient:
        return EtcdClient(replace(self.server.endpoint, timeout_s=1.0), rng=lambda: 0.0)

    async def start(self, data: str) -> None:
        """Start etcd in another folder: empty, or with saved data."""
        await self.server.stop()
        self.server = await EmbeddedEtcd.start(self.folder / data, client_port=self.port)

    async def save(self, data: str) -> None:
        """Save etcd's data while it continues to run."""
        await self.server.stop()
        shutil.copytree(self.folder / "one", self.folder / data)
        self.server = await EmbeddedEtcd.start(self.folder / "one", client_port=self.port)

    async def start_bumped(self, data: str) -> None:
        """Start etcd on saved data, at a higher revision: `etcdutl snapshot restore --bump-revision --mark-compacted`.

        Saved data have the id of their cluster, so no response header shows that it is another store.
        """
        await self.server.stop()
        aside = await EmbeddedEtcd.start(self.folder / data, client_port=0)
        client = EtcdClient(aside.endpoint)
        for _ in range(200):
            revision = (await client.txn(Txn((), (Put("/other", b""),)))).revision
        await client.close()
        compact(aside.endpoint.targets[0], revision)
        await aside.stop()
        self.server = await EmbeddedEtcd.start(self.folder / data, client_port=self.port)

    async def all_back(self, round_: int, *peers: GroupMember) -> None:
        """Wait until etcd has this round, and a key of each of these members."""

        async def back() -> bool:
            try:
                view = await self.group.view()
            except EtcdError:
                return False  # etcd does not answer the test either
            state = view.state
            here = {peer.member.session.me.member for peer in peers if peer.member.session is not None}
            return state is not None and state.round == round_ and len(here) > 0 and here <= view.nodes.keys()

        all_are_back: bool = await aeventually(back, within_s=30, what="all have rejoined")
        assert all_are_back


def compact(endpoint: str, revision: int) -> None:
    """Compact etcd as an administrator does."""
    with grpc.insecure_channel(endpoint) as channel:
        rpc.KVStub(channel).Compact(rpc.CompactionRequest(revision=revision), timeout=10)


@contextlib.asynccontextmanager
async def running(folder: Path, *, is_operated: bool) -> AsyncIterator[Site]:
    made = Site(folder, await EmbeddedEtcd.start(folder / "one", client_port=0))
    await made.save("before")
    if is_operated:
        await made.group.operate()
    made.group.join(2)
    await made.group.running(1)
    try:
        yield made
    finally:
        await made.group.close()
        await made.server.stop()


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    """Return a site on which both members run round 1."""
    async with running(tmp_path, is_operated=False) as made:
        yield made


@pytest.fixture
async def operated_site(tmp_path: Path) -> AsyncIterator[Site]:
    """Return the same with a spec of an operator."""
    async with running(tmp_path, is_operated=True) as made:
        yield made


def untouched(*peers: GroupMember) -> bool:
    return all(peer.workers.stops == 0 and peer.workers.rounds == [1] for peer in peers)


async def test_a_restart_of_etcd_changes_nothing(site: Site) -> None:
    await site.start("one")
    await site.all_back(1, *site.group.group_members)
    assert untouched(*site.group.group_members)
    assert await site.group.finish(*site.group.group_members) == [0, 0]


async def test_a_wipe_costs_no_round_and_no_worker(site: Site) -> None:
    before = await site.group.state(RoundPhase.ACTIVE, 1)
    await site.start("another")
    await site.all_back(1, *site.group.group_members)
    assert (await site.group.state(RoundPhase.ACTIVE, 1)) == before
    assert untouched(*site.group.group_members)
    assert await site.group.finish(*site.group.group_members) == [0, 0]


async def test_a_done_record_from_before_a_wipe_counts(site: Site) -> None:
    early, late = site.group.group_members
    early.workers.finish()
    await aeventually(lambda: early.member.session is not None and early.member.session.done_round == 1, within_s=20)
    await site.start("another")
    await site.all_back(1, early, late)
    assert await site.group.finish(late) == [0]
    assert await early.end() == 0


async def test_charges_from_before_a_wipe_remain_and_a_failure_after_it_is_charged_once(site: Site) -> None:
    first, second = site.group.group_members
    first.workers.fail()
    await site.group.running(2)
    await site.start("another")
    await site.all_back(2, first, second)
    second.workers.fail()
    await site.group.running(3)
    state = await site.group.state(RoundPhase.ACTIVE, 3)
    assert (state.restarts, state.node_losses) == (2, 0)


async def test_a_member_lost_together_with_the_store_is_detected_when_the_time_to_rejoin_is_over(site: Site) -> None:
    leader = await site.group.leader()
    (other,) = [peer for peer in site.group.group_members if peer is not leader]
    await other.crash()
    await site.start("another")
    state = await site.group.running(2, leader)
    assert (state.restarts, len(state.members)) == (0, 1)


async def test_a_member_whose_workers_stop_while_the_store_is_lost_continues_from_its_last_known_state(
    site: Site,
) -> None:
    leader = await site.group.leader()
    (other,) = [peer for peer in site.group.group_members if peer is not leader]
    assert other.member.session is not None
    gone, other.workers.slow = other.member.session.me.member, True
    await leader.crash()
    proof = Put(
        site.group.keys.tombstone(gone.slot, gone.incarnation), records.encode(Tombstone(TombstoneReason.REFUSED))
    )
    await site.group.observer.txn(Txn((), (proof,)))
    other.member.session_lost()  # it reads the tombstone, and must join again
    await aeventually(lambda: other.workers.phase is Workers.STOPPING, within_s=20)
    await site.start("another")
    other.workers.let_stop()
    await aeventually(lambda: other.workers.rounds == [1, 2] or other.task.done(), within_s=30)
    assert other.workers.rounds == [1, 2]
    assert await site.group.finish(other) == [0]


async def test_a_restored_store_gets_the_newer_round(site: Site) -> None:
    await site.save("backup")
    site.group.group_members[0].workers.fail()
    await site.group.running(2)
    await site.start("backup")
    await site.all_back(2, *site.group.group_members)
    assert [peer.workers.rounds for peer in site.group.group_members] == [[1, 2]] * 2
    assert all(peer.workers.phase is Workers.RUNNING for peer in site.group.group_members)
    assert await site.group.finish(*site.group.group_members) == [0, 0]


async def test_a_store_restored_at_a_higher_revision_costs_no_worker(site: Site) -> None:
    await site.save("backup")
    site.group.group_members[0].workers.fail()
    await site.group.running(2)
    await site.start_bumped("backup")
    await site.all_back(2, *site.group.group_members)
    assert [peer.workers.rounds for peer in site.group.group_members] == [[1, 2]] * 2
    assert await site.group.finish(*site.group.group_members) == [0, 0]


async def test_a_store_restored_at_a_higher_revision_from_before_an_operated_job_costs_no_worker(
    operated_site: Site,
) -> None:
    group = operated_site.group
    group.group_members[0].workers.fail()
    await group.running(2)
    await operated_site.start_bumped("before")
    await group.operate()
    await operated_site.all_back(2, *group.group_members)
    assert [peer.workers.rounds for peer in group.group_members] == [[1, 2]] * 2
    assert await group.finish(*group.group_members) == [0, 0]


async def test_a_node_that_was_away_does_not_begin_a_finished_run_again(
    tmp_path: Path,
) -> None:
    """The others deleted the keys of the run, and etcd was compacted since."""
    server = await EmbeddedEtcd.start(tmp_path / "other", client_port=0)
    port = int(server.endpoint.targets[0].rpartition(":")[2])
    with proxy("127.0.0.1", port) as way:
        endpoints = iter((server.endpoint, server.endpoint, replace(server.endpoint, targets=(way.endpoint,))))
        group = MemberGroup(
            lambda: EtcdClient(replace(next(endpoints), timeout_s=1.0), rng=lambda: 0.0),
            "/test/away/",
            SpecRecord(min=1, max=2, desired=2),
            lease_ttl_s=2.0,
        )
        stayed, away = group.join(2)
        await group.running(1)
        way.cut()
        await group.running(2, stayed)
        assert await group.finish(stayed) == [0]
        compact(server.endpoint.targets[0], (await group.observer.range(group.prefix)).revision)
        way.restore()
        assert await away.end() == ExitCode.JOB_DELETED
        left = await group.observer.range(group.prefix)
        await group.close()
    await server.stop()
    assert (away.workers.rounds, left.kvs) == ([1], ())

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
    """A folder, the etcd that runs in it now, always at the same port, and two members of a job."""

    def __init__(self, folder: Path, server: EmbeddedEtcd) -> None:
        self.folder = folder
        self.server = server
        self.port = int(server.endpoint.targets[0].rpartition(":")[2])
        self.crew = MemberGroup(self._client, "/test/wipes/", SpecRecord(min=1, max=2, desired=2), lease_ttl_s=2.0)

    def _client(self) -> EtcdClient:
        return EtcdClient(replace(self.server.endpoint, timeout_s=1.0), rng=lambda: 0.0)

    async def start(self, data: str) -> None:
        """Etcd in another folder: empty, or what was saved there."""
        await self.server.stop()
        self.server = await EmbeddedEtcd.start(self.folder / data, client_port=self.port)

    async def save(self, data: str) -> None:
        """Etcd goes on as it was; what it holds now is saved."""
        await self.server.stop()
        shutil.copytree(self.folder / "one", self.folder / data)
        self.server = await EmbeddedEtcd.start(self.folder / "one", client_port=self.port)

    async def start_bumped(self, data: str) -> None:
        """Etcd on what was saved, at a higher revision: `etcdutl snapshot restore --bump-revision --mark-compacted`.

        Saved data keep the id of their cluster, so nothing in a header tells that it is another store.
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

    async def all_back(self, round_: int, *mates: GroupMember) -> None:
        """Wait until etcd holds this round, and a key of each of these."""

        async def back() -> bool:
            try:
                view = await self.crew.view()
            except EtcdError:
                return False  # the observer has the same trouble
            world = view.world
            here = {mate.member.session.me.member for mate in mates if mate.member.session is not None}
            return world is not None and world.round == round_ and len(here) > 0 and here <= view.nodes.keys()

        all_are_back: bool = await aeventually(back, within_s=30, what="all are back")
        assert all_are_back


def compact(endpoint: str, revision: int) -> None:
    """As an administrator does."""
    with grpc.insecure_channel(endpoint) as channel:
        rpc.KVStub(channel).Compact(rpc.CompactionRequest(revision=revision), timeout=10)


@contextlib.asynccontextmanager
async def running(folder: Path, *, is_operated: bool) -> AsyncIterator[Site]:
    made = Site(folder, await EmbeddedEtcd.start(folder / "one", client_port=0))
    await made.save("before")
    if is_operated:
        await made.crew.operate()
    made.crew.join(2)
    await made.crew.running(1)
    try:
        yield made
    finally:
        await made.crew.close()
        await made.server.stop()


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    """Both run round 1."""
    async with running(tmp_path, is_operated=False) as made:
        yield made


@pytest.fixture
async def operated_site(tmp_path: Path) -> AsyncIterator[Site]:
    """The same where an operator wrote the spec."""
    async with running(tmp_path, is_operated=True) as made:
        yield made


def untouched(*mates: GroupMember) -> bool:
    return all(mate.workers.stops == 0 and mate.workers.rounds == [1] for mate in mates)


async def test_a_restart_of_etcd_is_not_even_noticed(site: Site) -> None:
    await site.start("one")
    await site.all_back(1, *site.crew.group_members)
    assert untouched(*site.crew.group_members)
    assert await site.crew.finish(*site.crew.group_members) == [0, 0]


async def test_a_wipe_costs_no_round_and_no_worker(site: Site) -> None:
    before = await site.crew.world(RoundPhase.ACTIVE, 1)
    await site.start("another")
    await site.all_back(1, *site.crew.group_members)
    assert (await site.crew.world(RoundPhase.ACTIVE, 1)) == before
    assert untouched(*site.crew.group_members)
    assert await site.crew.finish(*site.crew.group_members) == [0, 0]


async def test_success_that_was_said_before_a_wipe_counts(site: Site) -> None:
    early, late = site.crew.group_members
    early.workers.finish()
    await aeventually(lambda: early.member.session is not None and early.member.session.done_round == 1, within_s=20)
    await site.start("another")
    await site.all_back(1, early, late)
    assert await site.crew.finish(late) == [0]
    assert await early.end() == 0


async def test_what_was_charged_before_a_wipe_stays_charged_and_a_failure_after_it_is_charged_once(site: Site) -> None:
    first, second = site.crew.group_members
    first.workers.fail()
    await site.crew.running(2)
    await site.start("another")
    await site.all_back(2, first, second)
    second.workers.fail()
    await site.crew.running(3)
    world = await site.crew.world(RoundPhase.ACTIVE, 3)
    assert (world.restarts, world.node_losses) == (2, 0)


async def test_a_member_lost_together_with_the_store_is_missed_when_all_have_had_time_to_come_back(site: Site) -> None:
    closer = await site.crew.leader()
    (other,) = [mate for mate in site.crew.group_members if mate is not closer]
    await other.crash()
    await site.start("another")
    world = await site.crew.running(2, closer)
    assert (world.restarts, len(world.members)) == (0, 1)


async def test_a_member_whose_workers_stop_while_the_store_is_lost_goes_on_with_what_it_remembers(site: Site) -> None:
    closer = await site.crew.leader()
    (other,) = [mate for mate in site.crew.group_members if mate is not closer]
    assert other.member.session is not None
    gone, other.workers.slow = other.member.session.me.member, True
    await closer.crash()
    proof = Put(
        site.crew.keys.tombstone(gone.slot, gone.incarnation), records.encode(Tombstone(TombstoneReason.REFUSED))
    )
    await site.crew.observer.txn(Txn((), (proof,)))
    other.member.session_lost()  # it asks, finds the proof, and is to begin anew
    await aeventually(lambda: other.workers.phase is Workers.STOPPING, within_s=20)
    await site.start("another")
    other.workers.let_stop()
    await aeventually(lambda: other.workers.rounds == [1, 2] or other.task.done(), within_s=30)
    assert other.workers.rounds == [1, 2]
    assert await site.crew.finish(other) == [0]


async def test_a_restored_store_learns_of_the_newer_round(site: Site) -> None:
    await site.save("backup")
    site.crew.group_members[0].workers.fail()
    await site.crew.running(2)
    await site.start("backup")
    await site.all_back(2, *site.crew.group_members)
    assert [mate.workers.rounds for mate in site.crew.group_members] == [[1, 2]] * 2
    assert all(mate.workers.phase is Workers.RUNNING for mate in site.crew.group_members)
    assert await site.crew.finish(*site.crew.group_members) == [0, 0]


async def test_a_store_restored_at_a_higher_revision_costs_no_worker(site: Site) -> None:
    await site.save("backup")
    site.crew.group_members[0].workers.fail()
    await site.crew.running(2)
    await site.start_bumped("backup")
    await site.all_back(2, *site.crew.group_members)
    assert [mate.workers.rounds for mate in site.crew.group_members] == [[1, 2]] * 2
    assert await site.crew.finish(*site.crew.group_members) == [0, 0]


async def test_a_store_restored_at_a_higher_revision_from_before_an_operated_job_costs_no_worker(
    operated_site: Site,
) -> None:
    crew = operated_site.crew
    crew.group_members[0].workers.fail()
    await crew.running(2)
    await operated_site.start_bumped("before")
    await crew.operate()
    await operated_site.all_back(2, *crew.group_members)
    assert [mate.workers.rounds for mate in crew.group_members] == [[1, 2]] * 2
    assert await crew.finish(*crew.group_members) == [0, 0]


async def test_a_finished_run_without_an_operator_is_not_begun_again_by_a_node_that_was_away(
    tmp_path: Path,
) -> None:
    """The others deleted its keys, and etcd has lost history since."""
    server = await EmbeddedEtcd.start(tmp_path / "other", client_port=0)
    port = int(server.endpoint.targets[0].rpartition(":")[2])
    with proxy("127.0.0.1", port) as way:
        endpoints = iter((server.endpoint, server.endpoint, replace(server.endpoint, targets=(way.endpoint,))))
        crew = MemberGroup(
            lambda: EtcdClient(replace(next(endpoints), timeout_s=1.0), rng=lambda: 0.0),
            "/test/away/",
            SpecRecord(min=1, max=2, desired=2),
            lease_ttl_s=2.0,
        )
        stayed, away = crew.join(2)
        await crew.running(1)
        way.cut()
        await crew.running(2, stayed)
        assert await crew.finish(stayed) == [0]
        compact(server.endpoint.targets[0], (await crew.observer.range(crew.prefix)).revision)
        way.restore()
        assert await away.end() == ExitCode.JOB_DELETED
        left = await crew.observer.range(crew.prefix)
        await crew.close()
    await server.stop()
    assert (away.workers.rounds, left.kvs) == ([1], ())

"""Certificates are renewed while a job runs: no new round, no lost lease, no missed or repeated event."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from elasticjob_api import keys
from elasticjob_etcd.client import EtcdClient
from elasticjob_etcd.interface import Put, Txn
from elasticjob_etcd.leases import LeaseKeeper
from elasticjob_etcd.mirror import Mirror
from testing.processes.fleet import Fleet
from testing.servers.secured_etcd import SecuredEtcd
from testing.waiting import aeventually, eventually
from tests.integration.security.conftest import Job

pytestmark = pytest.mark.etcd

DIALED = "dialed etcd with the renewed certificate"


async def test_calls_watches_and_leases_continue_with_the_new_certificate(secured: SecuredEtcd, victim: Job) -> None:
    """Every write is delivered once and in order, while the client reconnects several times."""
    etcd = victim.etcd
    keeper = LeaseKeeper(etcd, await etcd.lease_grant(2))
    seen: list[bytes] = []
    begin = (await etcd.range(victim.keys.everything)).revision + 1
    async with contextlib.aclosing(etcd.watch(victim.keys.everything, start_revision=begin)) as watch:
        writer = asyncio.create_task(
            write_on(etcd, victim.keys.spec, renew=lambda: secured.issue_certificate(victim.uid))
        )
        async for batch in watch:
            seen += [event.kv.value for event in batch.events]
            if len(seen) >= 200:
                break
        await writer
    assert seen == [str(number).encode() for number in range(200)]
    assert not keeper.lost.is_set()
    await keeper.close()


async def write_on(etcd: EtcdClient, key: str, *, renew: Callable[[], object]) -> None:
    """Write 200 times in 4 s, with a new certificate after each 50."""
    for number in range(200):
        if number % 50 == 10:
            renew()
        await etcd.txn(Txn((), (Put(key, str(number).encode()),)))
        await asyncio.sleep(0.02)


async def test_a_client_waits_for_the_renewal_of_an_expired_certificate(secured: SecuredEtcd, victim: Job) -> None:
    """An expired certificate was valid when the files were set: the next one cures it without a restart."""
    async with Mirror(victim.etcd, victim.keys.everything) as mirror:
        secured.issue_certificate(victim.uid, life_s=-60)
        await asyncio.sleep(0.5)  # it was read, and cannot be used
        secured.issue_certificate(victim.uid)
        await victim.etcd.txn(Txn((), (Put(victim.keys.spec, b"later"),)))
        await aeventually(lambda: victim.keys.spec in mirror.items, what="the write in the mirror")


def await_words(log: Path, words: str) -> None:
    eventually(lambda: words in log.read_text(), within_s=30, what=words)


@pytest.fixture
async def fleet(secured: SecuredEtcd, root: EtcdClient, tmp_path: Path) -> AsyncIterator[Fleet]:
    """Run two real agents whose job has a certificate of its own."""
    made = Fleet(endpoint=f"127.0.0.1:{secured.port}", folder=tmp_path, nnodes="2", nproc=1)
    prefix = keys.cli_prefix(made.run_id)
    await root.auth.add_user(made.run_id, role=f"elasticjob/op/n/f/{made.run_id}", prefix=f"{prefix}/")
    files = secured.issue_certificate(made.run_id, life_s=3600)
    made.conf = f"keep_alive=2,cacert={files.ca_cert},cert={files.cert},key={files.key}"
    yield made
    made.stop()


async def test_agents_continue_with_the_renewed_certificate_in_the_same_round(
    secured: SecuredEtcd, root: EtcdClient, fleet: Fleet
) -> None:
    fleet.start_agents(2)
    before = {kv.key: kv.lease for kv in (await root.range(f"{keys.cli_prefix(fleet.run_id)}/c/nodes/")).kvs}
    secured.issue_certificate(fleet.run_id)
    for agent in range(2):
        await_words(fleet.log_of(agent), DIALED)
    await asyncio.sleep(4)  # two periods of a lease
    after = {kv.key: kv.lease for kv in (await root.range(f"{keys.cli_prefix(fleet.run_id)}/c/nodes/")).kvs}
    assert after == before, "the same stays, under the same leases"
    assert fleet.rounds() == {1}
    fleet.fail(0)
    fleet.await_round(2, 2)
    fleet.finish()
    assert fleet.await_ends() == [0, 0]
    assert not re.search("lost the lease", fleet.log_of(0).read_text())

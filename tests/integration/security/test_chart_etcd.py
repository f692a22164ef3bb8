"""The commands of etcd's pod as the chart renders them: etcd starts, and limits a job's requests."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from elasticjob_etcd.client import EtcdClient
from elasticjob_etcd.messages import rpc
from testing.servers.chart_etcd import ChartEtcd
from testing.servers.secured_etcd import administrator, bare_channel
from testing.waiting import aeventually
from tests.integration.security.conftest import Job, job

pytestmark = [pytest.mark.etcd, pytest.mark.timeout(1000)]

MANY = 1_000
KEPT = 310
"""Most raft entries since the last snapshot: --snapshot-count, and some that are applied together."""


@pytest.fixture
def charted(etcd_program: str, tmp_path: Path) -> ChartEtcd:
    return ChartEtcd(tmp_path, etcd_program)


@pytest.fixture
async def admin(charted: ChartEtcd) -> AsyncIterator[EtcdClient]:
    async with administrator(charted) as client:
        yield client
    charted.kill()


@pytest.fixture
async def flooder(charted: ChartEtcd, admin: EtcdClient) -> AsyncIterator[Job]:
    async with job(charted, admin, "a") as made:
        yield made


def writes_nothing(own: Job, size: int) -> Any:
    """Return a transaction of that many bytes that leaves no key and no revision, but is in the raft log."""
    key = f"{own.keys.everything}x".encode()
    compare = rpc.Compare(key=key, target=rpc.Compare.VALUE, result=rpc.Compare.EQUAL, value=bytes(size))
    delete = rpc.RequestOp(request_delete_range=rpc.DeleteRangeRequest(key=key))
    return rpc.TxnRequest(compare=[compare], failure=[delete])


def snapshots(etcd: ChartEtcd) -> list[int]:
    """Return the indexes of snapshots: a restart need not read the entries before them."""
    files = (etcd.folder / "data" / "member" / "snap").glob("*.snap")
    return sorted(int(file.stem.rpartition("-")[2], 16) for file in files)


async def test_transactions_that_write_nothing_leave_the_raft_log_after_a_while(
    charted: ChartEtcd, flooder: Job
) -> None:
    async with bare_channel(flooder.endpoint) as channel:
        for _ in range(MANY):
            await rpc.KVStub(channel).Txn(writes_nothing(flooder, 10), timeout=30)
    kept = await aeventually(lambda: [at for at in snapshots(charted) if at >= MANY - KEPT], what="a late snapshot")
    assert kept


async def test_a_request_is_no_larger_than_the_failures_of_a_large_node(flooder: Job) -> None:
    async with bare_channel(flooder.endpoint) as channel:
        await rpc.KVStub(channel).Txn(writes_nothing(flooder, 24 * 40 * 1024), timeout=30)
        with pytest.raises(grpc.RpcError) as refused:
            await rpc.KVStub(channel).Txn(writes_nothing(flooder, 1 << 20), timeout=30)
    assert "request is too large" in (refused.value.details() or "")

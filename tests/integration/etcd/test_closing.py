"""A client that is closed has let go of its connection, whatever it was used for, before any garbage is collected."""

import contextlib
import gc
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import psutil
import pytest

from elasticjob_etcd.client import EtcdClient
from elasticjob_etcd.embedded import EmbeddedEtcd
from elasticjob_etcd.leases import LeaseKeeper
from elasticjob_etcd.mirror import Mirror
from testing.waiting import aeventually

pytestmark = pytest.mark.etcd
Use = Callable[[EtcdClient, str], Awaitable[object]]
LIMIT_S = 30.0


@pytest.fixture(autouse=True)
def _no_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def connections(server: EmbeddedEtcd) -> set[int]:
    """Ports of this process from which it is connected to the server."""
    found = psutil.Process().net_connections("tcp")
    return {each.laddr.port for each in found if each.status == psutil.CONN_ESTABLISHED and is_to(each, server)}


def is_to(connection: psutil._ntuples.pconn, server: EmbeddedEtcd) -> bool:
    return bool(connection.raddr) and connection.raddr.port == server.port


async def ask(etcd: EtcdClient, prefix: str) -> None:
    await etcd.get(prefix)


async def refresh_once(etcd: EtcdClient, _prefix: str) -> None:
    lease = await etcd.lease_grant(5)
    await etcd.lease_keep_alive(lease.id)


async def keep_a_lease(etcd: EtcdClient, _prefix: str) -> LeaseKeeper:
    keeper = LeaseKeeper(etcd, await etcd.lease_grant(5))
    await etcd.lease_keep_alive(keeper.lease.id)
    await keeper.close()
    return keeper


async def follow(etcd: EtcdClient, prefix: str) -> Mirror:
    mirror = Mirror(etcd, prefix)
    async with mirror:
        await mirror.wait_watching()
    return mirror


async def begin_to_follow(etcd: EtcdClient, prefix: str) -> Mirror:
    """Closed only after its client."""
    mirror = Mirror(etcd, prefix)
    await mirror.__aenter__()
    return mirror


async def watch(etcd: EtcdClient, prefix: str) -> object:
    stream = etcd.watch(prefix, start_revision=0)
    async with contextlib.aclosing(stream):
        await anext(stream)
    return stream


@pytest.fixture
async def closed_later() -> AsyncIterator[list[object]]:
    """Return the result of a use: the test holds it to its end, as an owner would."""
    held: list[object] = []
    yield held
    for each in held:
        if isinstance(each, Mirror | LeaseKeeper):
            await each.close()


@pytest.mark.parametrize("use", [ask, refresh_once, keep_a_lease, follow, begin_to_follow, watch])
async def test_no_connection_is_left(
    use: Use, etcd_server: EmbeddedEtcd, prefix: str, closed_later: list[object]
) -> None:
    before = connections(etcd_server)
    client = EtcdClient(etcd_server.endpoint)
    closed_later.append(await use(client, prefix))
    assert connections(etcd_server) - before
    await client.close()
    await aeventually(lambda: not connections(etcd_server) - before, within_s=LIMIT_S, what="no connection is left")

"""A real etcd that is killed, stopped, wiped or restored under running clients."""

import asyncio
import contextlib
import shutil
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from elasticjob_agent.net.servers import close_server
from elasticjob_etcd.client import EtcdClient
from elasticjob_etcd.errors import RequestRejected, StoreReset, Unavailable
from elasticjob_etcd.interface import Delete, Endpoint, Etcd, Put, Txn, absent
from elasticjob_etcd.leases import LeaseKeeper
from elasticjob_etcd.mirror import Mirror
from testing.servers.not_etcd import not_etcd
from tests.integration.etcd.conftest import compact
from tests.integration.etcd.site import EtcdSite, answers, put

pytestmark = pytest.mark.etcd


async def put_once(etcd: Etcd, key: str) -> None:
    """Create `key`, whatever becomes of etcd meanwhile; a second attempt after an unknown outcome changes nothing."""
    while True:
        with contextlib.suppress(Unavailable):
            await etcd.txn(Txn((absent(key),), (Put(key, b""),)))
            return
        await asyncio.sleep(0.01)


async def delivered(etcd: Etcd, start_revision: int, count: int) -> list[str]:
    keys: list[str] = []
    async with asyncio.timeout(30), contextlib.aclosing(etcd.watch("", start_revision=start_revision)) as watch:
        while len(keys) < count:
            keys += [event.kv.key for event in (await anext(watch)).events]
    return keys


async def test_a_watch_over_a_killed_and_restarted_etcd_delivers_everything_once_and_in_order(
    site: EtcdSite, client: EtcdClient
) -> None:
    keys = [f"{i:03}" for i in range(150)]
    watching = asyncio.create_task(delivered(client, 2, len(keys)))

    async def write() -> None:
        for key in keys:
            await put_once(client, key)

    writing = asyncio.create_task(write())
    for third in (50, 100):
        await delivered(client, 2, third)
        site.server.kill()
        await site.start()
    await writing
    assert await watching == keys


async def test_an_etcd_that_is_away_makes_calls_fail_and_come_back(site: EtcdSite, client: EtcdClient) -> None:
    await put(client, "a")
    site.server.kill()
    with pytest.raises(Unavailable, match=rf"etcd at 127.0.0.1:{site.server.port}: read of a: "):
        await client.get("a")
    with pytest.raises(Unavailable):
        await client.lease_keep_alive(1)
    await site.start()
    await answers(client)
    assert await client.get("a") is not None
    assert await client.lease_keep_alive(1) == 0.0


async def test_a_stalled_etcd_makes_every_call_fail_in_time_and_a_watch_go_on_later(
    site: EtcdSite, client: EtcdClient
) -> None:
    revision = await put(client, "a")
    lease = await client.lease_grant(60)
    await client.lease_keep_alive(lease.id)
    watching = asyncio.create_task(delivered(client, revision, 2))
    await delivered(client, revision, 1)
    with site.stalled():
        calls = (client.get("a"), client.range("a"), put(client, "lost"), client.lease_keep_alive(lease.id))
        results = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(result) for result in results] == [Unavailable] * 4
    await answers(client)
    assert await client.lease_keep_alive(lease.id) == lease.ttl_s
    await put(client, "b")
    assert (await watching)[0] == "a"


async def test_closing_a_client_ends_a_call_that_a_stalled_etcd_does_not_answer(site: EtcdSite) -> None:
    client = site.client(timeout_s=60)
    await client.get("a")
    with site.stalled():
        call = asyncio.create_task(client.get("a"))
        await asyncio.sleep(0)
        await client.close()
        with pytest.raises(Unavailable, match="closed"):
            await call


async def test_a_wiped_store_is_reported_to_each_caller_once(site: EtcdSite, client: EtcdClient) -> None:
    revision = await put(client, "a")
    watch = client.watch("", start_revision=revision)
    await anext(watch)
    await site.server.stop()
    await site.start("another")
    with pytest.raises(StoreReset):
        await anext(watch)
    assert await client.get("a") is None


async def test_a_call_is_the_first_to_notice_a_wiped_store(site: EtcdSite, client: EtcdClient) -> None:
    await put(client, "a")
    lease = await client.lease_grant(60)
    await site.server.stop()
    await site.start("another")
    with pytest.raises(StoreReset, match="another store"):
        await asyncio.wait_for(_insist(client), 60)
    assert await client.get("a") is None
    assert await client.lease_keep_alive(lease.id) == 0.0


async def _insist(client: EtcdClient) -> None:
    while True:
        with contextlib.suppress(Unavailable):
            await client.get("a")
        await asyncio.sleep(0.01)


async def restore_a_backup(site: EtcdSite, client: EtcdClient) -> int:
    """Go back to before the last write, whose revision this is."""
    await put(client, "a")
    await site.server.stop()
    shutil.copytree(site.folder / "one", site.folder / "backup")
    await site.start()
    await answers(client)
    revision = await put(client, "b")
    await site.server.stop()
    await site.start("backup")
    return revision


async def test_a_call_detects_a_store_restored_from_a_backup_by_its_revision(
    site: EtcdSite, client: EtcdClient
) -> None:
    revision = await restore_a_backup(site, client)
    with pytest.raises(StoreReset, match=f"after {revision}"):
        await asyncio.wait_for(_insist(client), 60)
    assert await client.get("b") is None


async def test_a_watch_detects_a_store_restored_from_a_backup_by_its_revision(
    site: EtcdSite, client: EtcdClient
) -> None:
    revision = await restore_a_backup(site, client)
    with pytest.raises(StoreReset, match="restored or wiped"):
        await delivered(client, revision + 1, 1)
    assert await client.get("b") is None


async def test_a_lease_is_lost_when_etcd_stays_away_for_its_ttl(site: EtcdSite, client: EtcdClient) -> None:
    keeper = LeaseKeeper(client, await client.lease_grant(1), rng=lambda: 0.0)
    site.server.kill()
    async with asyncio.timeout(10):
        await keeper.lost.wait()
    assert "was not refreshed for 1 s (etcd at 127.0.0.1" in keeper.reason
    await keeper.close()


async def test_a_mirror_lives_through_restart_compaction_and_wipe(site: EtcdSite, client: EtcdClient) -> None:
    await put(client, "p/a")
    async with asyncio.timeout(40), Mirror(client, "p/", rng=lambda: 0.0) as mirror:
        site.server.kill()
        await site.start()
        other = site.client()
        await other.txn(Txn((), (Delete("p/a"), Put("p/b", b""))))
        last = await put(other, "p/c")
        await compact(site.server.endpoint, last)
        while mirror.revision < last:
            await mirror.wait_change(mirror.revision)
        assert sorted(mirror.items) == ["p/b", "p/c"]
        await other.close()
        await site.server.stop()
        await site.start("another")
        with pytest.raises(StoreReset):
            await mirror.wait_change(mirror.revision)
        assert mirror.items == {}


async def test_a_port_where_something_else_answers_is_no_etcd(site: EtcdSite) -> None:
    async def hello(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(hello, "127.0.0.1")
    port = server.sockets[0].getsockname()[1]
    client = EtcdClient(replace(site.server.endpoint, targets=(f"127.0.0.1:{port}",)))
    with pytest.raises((Unavailable, RequestRejected), match=f"etcd at 127.0.0.1:{port}: read of a"):
        await client.get("a")
    await client.close()
    await close_server(server)
    await server.wait_closed()


async def _read(client: EtcdClient) -> None:
    await client.get("key")


async def _refresh(client: EtcdClient) -> None:
    await client.lease_keep_alive(7)


async def _watch(client: EtcdClient) -> None:
    async with contextlib.aclosing(client.watch("", start_revision=1)) as watch:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.5):
                await anext(watch)


@pytest.mark.parametrize("ask", [_read, _refresh, _watch])
async def test_a_connection_that_led_to_somebody_else_is_given_up_and_etcd_dialed(
    tmp_path: Path, ask: Callable[[EtcdClient], Awaitable[None]]
) -> None:
    """Before a cluster knows the way to a service, its address may lead anywhere; such a connection then stays."""
    async with asyncio.timeout(30), contextlib.AsyncExitStack() as ending:
        async with not_etcd() as other:
            client = EtcdClient(Endpoint((f"127.0.0.1:{other.port}",), timeout_s=1.0), rng=lambda: 0.0)
            ending.push_async_callback(client.close)
            with contextlib.suppress(Unavailable):
                await ask(client)
            assert other.connections >= 1
        site = EtcdSite(tmp_path)
        await site.start(port=other.port)
        ending.push_async_callback(site.server.stop)
        await _until_it_answers(ask, client)
        assert await client.get("key") is None


async def _until_it_answers(ask: Callable[[EtcdClient], Awaitable[None]], client: EtcdClient) -> None:
    while True:
        with contextlib.suppress(Unavailable):
            return await ask(client)
        await asyncio.sleep(0.01)

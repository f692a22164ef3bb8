"""A suspended member costs no client a lease: each client fails over to another member long before gRPC notices."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from elasticjob_etcd.client import EtcdClient
from elasticjob_etcd.errors import Unavailable
from elasticjob_etcd.interface import Endpoint, Put, Txn
from elasticjob_etcd.leases import LeaseKeeper
from elasticjob_etcd.mirror import Mirror
from testing.network.load_balancer import load_balancer
from testing.servers.etcds import OwnEtcd, ThreeEtcds, own_etcd, three_etcds
from testing.waiting import aeventually

pytestmark = pytest.mark.etcd

TTL_S = 9.0
"""gRPC notices after 10 to 13 s."""


@pytest.fixture
def three(tmp_path: Path) -> Iterator[ThreeEtcds]:
    with three_etcds(tmp_path) as made:
        yield made


@pytest.fixture
def single(tmp_path: Path) -> Iterator[OwnEtcd]:
    with own_etcd(tmp_path) as made:
        yield made


@contextlib.asynccontextmanager
async def a_client(*endpoints: str, timeout_s: float = 3.0) -> AsyncIterator[EtcdClient]:
    client = EtcdClient(Endpoint(endpoints, timeout_s=timeout_s))
    try:
        yield client
    finally:
        await client.close()


@contextlib.asynccontextmanager
async def kept(client: EtcdClient) -> AsyncIterator[LeaseKeeper]:
    keeper = LeaseKeeper(client, await client.lease_grant(TTL_S))
    try:
        await client.lease_keep_alive(keeper.lease.id)
        yield keeper
    finally:
        await keeper.close()


async def hears_of_a_write(mirror: Mirror, other: EtcdClient) -> None:
    """Written over another way, and seen over that of the mirror."""
    while True:
        with contextlib.suppress(Unavailable):
            await other.txn(Txn((), (Put("watched/key", b""),)))
            break
    await aeventually(lambda: "watched/key" in mirror.items, within_s=60, what="the write is seen")


async def wait_refreshed(client: EtcdClient, keeper: LeaseKeeper) -> None:
    async with asyncio.timeout(60):
        while True:
            with contextlib.suppress(Unavailable):
                assert await client.lease_keep_alive(keeper.lease.id) > 0
                return
            await asyncio.sleep(0.01)


def after(etcds: ThreeEtcds, number: int) -> list[str]:
    """All endpoints, that one first."""
    return etcds.endpoints[number:] + etcds.endpoints[:number]


async def settle(client: EtcdClient, other: EtcdClient) -> None:
    """No ping of gRPC's own is under way any more: without an answer to that it would notice within 3 s by chance."""
    await client.get("anything")
    for _ in range(100):
        await other.get("anything")


@pytest.mark.parametrize(
    ("connected", "frozen"), [("leader", "leader"), ("follower", "follower"), ("follower", "leader")]
)
async def test_no_lease_is_lost_and_the_watch_continues_while_a_member_is_suspended(
    three: ThreeEtcds, connected: str, frozen: str
) -> None:
    leader = three.leader
    assert leader is not None
    number = {"leader": leader, "follower": (leader + 1) % 3}
    async with (
        a_client(*after(three, number[connected])) as client,
        a_client(three.endpoints[(leader + 2) % 3]) as other,
        kept(client) as keeper,
        Mirror(client, "watched/") as mirror,
    ):
        await settle(client, other)
        with three.stalled(number[frozen]):
            await hears_of_a_write(mirror, other)
            await wait_refreshed(client, keeper)
            assert not keeper.lost.is_set(), keeper.reason


async def test_a_read_without_an_answer_leads_to_another_member_too(three: ThreeEtcds) -> None:
    leader = three.leader
    assert leader is not None
    follower = (leader + 1) % 3
    async with a_client(*after(three, follower)) as client, a_client(three.endpoints[leader]) as other:
        await settle(client, other)
        with three.stalled(follower):
            with pytest.raises(Unavailable):
                await client.get("anything")
            assert await client.get("anything") is None


async def test_behind_one_address_it_dials_until_it_is_led_to_a_member_that_answers(three: ThreeEtcds) -> None:
    dead, living, *_ = three.endpoints
    async with (
        load_balancer(dead, dead, living) as way,
        a_client(f"127.0.0.1:{way.port}") as client,
        a_client(living) as other,
        kept(client) as keeper,
        Mirror(client, "watched/") as mirror,
    ):
        await settle(client, other)
        with three.stalled(0):
            await hears_of_a_write(mirror, other)
            assert not keeper.lost.is_set(), keeper.reason
        assert way.connections >= 3


async def test_a_single_suspended_member_is_dialed_once_more_and_never_again(single: OwnEtcd) -> None:
    async with (
        load_balancer(single.endpoint) as way,
        a_client(f"127.0.0.1:{way.port}", timeout_s=2.0) as client,  # gRPC itself would dial after 3 s at the earliest
        a_client(single.endpoint) as other,
        kept(client) as keeper,
    ):
        await settle(client, other)
        await stands_still_for_one_refresh(single, client, keeper)
        assert way.connections > 1
        await wait_refreshed(client, keeper)
        await aeventually(lambda: client._failover._single_member, what="it knows that there is no other member")
        await settle(client, other)
        known = way.connections
        await stands_still_for_one_refresh(single, client, keeper)
        await wait_refreshed(client, keeper)
        assert way.connections == known
        assert not keeper.lost.is_set(), keeper.reason


async def stands_still_for_one_refresh(single: OwnEtcd, client: EtcdClient, keeper: LeaseKeeper) -> None:
    with single.stalled(), pytest.raises(Unavailable):
        await client.lease_keep_alive(keeper.lease.id)

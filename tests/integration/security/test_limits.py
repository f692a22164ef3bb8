"""Limits of etcd for one job's certificate: leases, watches, streams, and their sizes.

Reads and connections have files of their own. The numbers are small here; those of an installation are in docs/etcd.md.
"""

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from elasticjob_etcd.client import EtcdClient
from elasticjob_etcd.errors import RequestRejected, Unavailable
from elasticjob_etcd.interface import Put, Txn
from elasticjob_etcd.lease_admin import EtcdLeaseAdmin
from elasticjob_etcd.messages import prefix_range, rpc
from testing.servers.secured_etcd import SecuredEtcd, bare_channel
from testing.waiting import aeventually
from tests.integration.security.conftest import Job

pytestmark = pytest.mark.etcd

LEASES, WATCHES, STREAMS = 60, 40, 20
PER_ADDRESS = {"leases": 16, "watches": 32, "streams": 32}
"""The addition for the single address of these tests, as images/etcd/limits computes it."""
ATTEMPTS = 2_000
TTL_S = 600


@pytest.fixture(scope="module")
def secured(etcd_program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredEtcd]:
    """Return an etcd with small limits, in place of the one without."""
    environment = {
        "ELASTICJOB_ETCD_MAX_LEASES": str(LEASES),
        "ELASTICJOB_ETCD_MAX_WATCHES": str(WATCHES),
        "ELASTICJOB_ETCD_MAX_STREAMS": str(STREAMS),
    }
    made = SecuredEtcd(tmp_path_factory.mktemp("limited"), etcd_program, environment=environment)
    yield made
    made.kill()


async def grant(channel: grpc.aio.Channel, ttl_s: int = TTL_S) -> grpc.aio.AioRpcError | int:
    """Return the id of a new lease, or the error."""
    try:
        answer = await rpc.LeaseStub(channel).LeaseGrant(rpc.LeaseGrantRequest(TTL=ttl_s), timeout=60)
    except grpc.aio.AioRpcError as error:
        return error
    return int(answer.ID)


async def flood(channel: grpc.aio.Channel) -> list[grpc.aio.AioRpcError | int]:
    """Return the outcome of each of many concurrent attempts."""
    outcomes: list[grpc.aio.AioRpcError | int] = []

    async def ask_again_and_again() -> None:
        while len(outcomes) < ATTEMPTS:
            outcomes.append(await grant(channel))

    await asyncio.gather(*(ask_again_and_again() for _ in range(64)))
    return outcomes


async def open_watches(job: Job, channel: grpc.aio.Channel, number: int) -> tuple[Any, int]:
    """Return a stream and the number of watches that etcd confirmed on it before it refused one."""
    stream = rpc.WatchStub(channel).Watch()
    create = rpc.WatchCreateRequest(**prefix_range(job.keys.everything))
    for confirmed in range(number):
        try:
            await stream.write(rpc.WatchRequest(create_request=create))
            answer = await stream.read()
        except grpc.aio.AioRpcError:
            return stream, confirmed
        if answer is grpc.aio.EOF:  # type: ignore[attr-defined]  # the stubs have forgotten it
            return stream, confirmed
        assert answer.created
        assert not answer.canceled
    return stream, number


async def expect_refusal(stream: Any, because: str) -> None:
    """Check that the stream ended at a limit; a writing client may get only the reset after the response."""
    if await stream.code() is not grpc.StatusCode.INTERNAL:
        assert await stream.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert because in await stream.details()


async def test_a_flood_of_leases_stays_within_the_limit_and_does_not_affect_another_job(
    attacker: Job, victim: Job, root: EtcdClient
) -> None:
    async with bare_channel(attacker.endpoint) as channel, EtcdLeaseAdmin.connect(root.endpoint) as admin:
        before = await admin.leases()
        flooding = asyncio.create_task(flood(channel))
        for _ in range(LEASES // 2):  # it has the same limit
            lease = await victim.etcd.lease_grant(TTL_S)
            await victim.etcd.txn(Txn((), (Put(f"{victim.keys.everything}x", b"", lease=lease.id),)))
            await admin.revoke(lease.id)
        outcomes = await flooding
        granted = [outcome for outcome in outcomes if isinstance(outcome, int)]
        assert len(granted) == LEASES  # it has no stream, and so no address
        assert await admin.leases() - before == set(granted)
    refused = [outcome for outcome in outcomes if not isinstance(outcome, int)]
    assert {error.code() for error in refused} == {grpc.StatusCode.RESOURCE_EXHAUSTED}
    assert f"{LEASES} leases" in (refused[0].details() or "")
    assert "etcd.limits.leases" in (refused[0].details() or "")


async def test_the_operator_has_no_limits(root: EtcdClient) -> None:
    async with bare_channel(root.endpoint) as channel, EtcdLeaseAdmin.connect(root.endpoint) as admin:
        granted = await asyncio.gather(*(grant(channel, 4_000) for _ in range(2 * LEASES)))
        assert all(isinstance(lease, int) for lease in granted)
        await asyncio.gather(*(admin.revoke(lease) for lease in granted if isinstance(lease, int)))


async def test_a_revoked_lease_frees_a_place(attacker: Job, root: EtcdClient) -> None:
    """At the limit an agent of the same job gets an error with the reason, and a lease once a place is free."""
    async with bare_channel(attacker.endpoint) as channel, EtcdLeaseAdmin.connect(root.endpoint) as admin:
        granted = [lease for lease in await flood(channel) if isinstance(lease, int)]
        with pytest.raises(Unavailable, match=r"limit of one job.*etcd\.limits\.leases"):
            await attacker.etcd.lease_grant(TTL_S)
        await asyncio.gather(*(admin.revoke(lease) for lease in granted))

        async def granted_again() -> Any:
            with contextlib.suppress(Unavailable):
                return await attacker.etcd.lease_grant(TTL_S)
            return None

        await aeventually(granted_again, within_s=60, what="a lease for the agent, when the rate has refilled")


async def test_a_lease_of_a_century_is_refused(attacker: Job) -> None:
    with pytest.raises(RequestRejected, match="a lease of 3000000000 seconds is refused: a job's may have 3600"):
        await attacker.etcd.lease_grant(3_000_000_000)


async def test_watches_over_one_stream_stay_within_the_limit(attacker: Job, victim: Job) -> None:
    allowed = WATCHES + PER_ADDRESS["watches"]
    async with bare_channel(attacker.endpoint) as channel:
        first, confirmed = await open_watches(attacker, channel, allowed - 1)
        assert confirmed == allowed - 1
        second, confirmed = await open_watches(attacker, channel, 10)
        assert confirmed == 1
        await expect_refusal(second, "etcd.limits.watches")
        async with bare_channel(victim.endpoint) as other:
            _, confirmed = await open_watches(victim, other, 5)
            assert confirmed == 5
        first.cancel()

        async def ten_again() -> Any:
            stream, confirmed = await open_watches(attacker, channel, 10)
            stream.cancel()
            return confirmed == 10

        await aeventually(ten_again, within_s=60, what="ten watches after the stream has ended")


async def test_a_cancelled_watch_frees_one_place(attacker: Job) -> None:
    """Watches that etcd refuses, and a second cancel of a watch, free no place."""
    async with bare_channel(attacker.endpoint) as channel:
        stream, confirmed = await open_watches(attacker, channel, WATCHES)
        assert confirmed == WATCHES
        create = rpc.WatchCreateRequest(start_revision=-1, **prefix_range(attacker.keys.everything))
        for _ in range(3 * WATCHES):
            await stream.write(rpc.WatchRequest(cancel_request=rpc.WatchCancelRequest(watch_id=0)))
            await stream.write(rpc.WatchRequest(create_request=create))
        answers: list[Any] = [await stream.read() for _ in range(3 * WATCHES + 1)]
        assert [answer.canceled for answer in answers] == [True] * len(answers)
        other, confirmed = await open_watches(attacker, channel, 2 * WATCHES)
        assert confirmed == PER_ADDRESS["watches"] + 1
        other.cancel()
        stream.cancel()


async def test_streams_stay_within_the_limit(attacker: Job, victim: Job) -> None:
    allowed = STREAMS + PER_ADDRESS["streams"]
    async with bare_channel(attacker.endpoint) as channel:
        streams = [await open_watches(attacker, channel, 1) for _ in range(allowed)]
        assert all(confirmed for _, confirmed in streams)
        over, confirmed = await open_watches(attacker, channel, 1)
        assert confirmed == 0
        await expect_refusal(over, "etcd.limits.streams")
        async with bare_channel(victim.endpoint) as other:
            _, confirmed = await open_watches(victim, other, 1)
            assert confirmed == 1


async def test_an_agents_watch_waits_for_a_free_place_and_then_continues(attacker: Job) -> None:
    allowed = STREAMS + PER_ADDRESS["streams"]
    async with bare_channel(attacker.endpoint) as channel:
        streams = [await open_watches(attacker, channel, 1) for _ in range(allowed)]
        watch = attacker.etcd.watch(attacker.keys.everything, start_revision=0)
        waiting = asyncio.ensure_future(anext(watch))
        _, pending = await asyncio.wait({waiting}, timeout=1)
        assert pending, f"it ended at the limit: {waiting}"
        for stream, _ in streams:
            stream.cancel()
        async with asyncio.timeout(60):
            await waiting
        await watch.aclose()


async def test_a_watch_of_a_key_of_a_megabyte_is_refused(attacker: Job) -> None:
    create = rpc.WatchCreateRequest(key=attacker.keys.everything.encode() + b"x" * 1_000_000)
    async with bare_channel(attacker.endpoint) as channel:
        stream = rpc.WatchStub(channel).Watch()
        await stream.write(rpc.WatchRequest(create_request=create))
        assert await stream.code() in {grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.INTERNAL}
        assert await open_watches(attacker, channel, 1)


@pytest.mark.parametrize("method", ["/v3lockpb.Lock/Lock", "/v3electionpb.Election/Observe"])
async def test_services_that_open_leases_and_watches_of_their_own_are_refused(attacker: Job, method: str) -> None:
    async with bare_channel(attacker.endpoint) as channel:
        asked = channel.unary_stream(method, lambda name: name, lambda answer: answer)(b"\x0a\x01x", timeout=60)
        assert await asked.code() is grpc.StatusCode.PERMISSION_DENIED


async def test_refusals_are_in_etcds_log_once_a_minute(attacker: Job, secured: SecuredEtcd) -> None:
    for _ in range(10):
        with pytest.raises(RequestRejected):
            await attacker.etcd.lease_grant(3_000_000_000)
    lines = [line for line in secured.log.splitlines() if attacker.uid in line and "refused a request" in line]
    assert len(lines) == 1


def test_an_invalid_limit_ends_etcd_with_a_message(etcd_program: str, tmp_path: Path) -> None:
    environment = {"ELASTICJOB_ETCD_MAX_LEASES": "many"}
    etcd = SecuredEtcd(tmp_path, etcd_program, environment=environment)
    etcd.wait(within_s=60)
    assert "ELASTICJOB_ETCD_MAX_LEASES=" in etcd.log
    assert "0 is no limit" in etcd.log

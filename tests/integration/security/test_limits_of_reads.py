"""Limits for etcd's memory of one job's reads: replies that no client reads, and transactions with repeated reads.

The numbers are small here; those of an installation are in docs/etcd.md.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import grpc
import psutil
import pytest

from elasticjob_etcd.client import EtcdClient
from elasticjob_etcd.errors import RequestRejected
from elasticjob_etcd.interface import Get, Put, Txn
from elasticjob_etcd.messages import prefix_range, rpc
from testing.servers.secured_etcd import SecuredEtcd, bare_channel
from testing.waiting import aeventually
from tests.integration.security.conftest import Job, job

pytestmark = pytest.mark.etcd

MIB = 1 << 20
BYTES = 4 * MIB
VALUE = MIB // 2
KEYS = 16
"""Bytes of a list's reply: 8 MiB."""
UNREAD = 60
MOST = 200 * MIB
"""Most additional memory, with garbage; all replies are 480 MiB, and twice that while they are created."""


@pytest.fixture(scope="module")
def secured(etcd_program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredEtcd]:
    """Return an etcd with a small limit, in place of the one without."""
    environment = {"ELASTICJOB_ETCD_MAX_BYTES": str(BYTES)}
    made = SecuredEtcd(tmp_path_factory.mktemp("limited"), etcd_program, environment=environment)
    yield made
    made.kill()


@pytest.fixture
async def attacker(secured: SecuredEtcd, root: EtcdClient) -> AsyncIterator[Job]:
    """Job A, with some megabytes below its prefix: hostile code runs with its certificate."""
    async with job(secured, root, "a") as made:
        for number in range(KEYS):
            await made.etcd.txn(Txn((), (Put(f"{made.keys.everything}{number:02}", b"x" * VALUE),)))
        yield made


@pytest.fixture
async def victim(secured: SecuredEtcd, root: EtcdClient) -> AsyncIterator[Job]:
    """Job B, of another user."""
    async with job(secured, root, "b") as made:
        await made.etcd.txn(Txn((), (Put(f"{made.keys.everything}x", b"1"),)))
        yield made


class Peak:
    """The highest observed memory of etcd, above the first observation."""

    def __init__(self, etcd: SecuredEtcd) -> None:
        self._process = psutil.Process(etcd.pid)
        self._first = self._last = self._process.memory_info().rss

    async def observe(self) -> None:
        """Observe until cancelled."""
        while True:
            self._last = max(self._last, self._process.memory_info().rss)
            await asyncio.sleep(0.01)

    @property
    def bytes(self) -> int:
        """The additional memory in bytes."""
        return self._last - self._first


@contextlib.asynccontextmanager
async def peak_of(etcd: SecuredEtcd) -> AsyncIterator[Peak]:
    """Observe etcd's memory while the context is entered."""
    peak = Peak(etcd)
    looking = asyncio.create_task(peak.observe())
    yield peak
    looking.cancel()


def listing(job: Job) -> Any:
    """Return a request for all keys of the job."""
    return rpc.RangeRequest(**prefix_range(job.keys.everything))


def ask(channel: grpc.aio.Channel, method: str, request: Any, answer: Any) -> Any:
    """Send a call without reading its reply: a stream delivers no more than the window."""
    made = channel.unary_stream(f"/etcdserverpb.KV/{method}", type(request).SerializeToString, answer.FromString)
    return made(request)


async def begun(calls: list[Any]) -> None:
    """Wait until the first reply has begun to arrive or was refused."""
    waiting = [asyncio.create_task(call.wait_for_connection()) for call in calls]
    done, others = await asyncio.wait(waiting, timeout=60, return_when=asyncio.FIRST_COMPLETED)
    for task in others:
        task.cancel()
    assert [task.exception() for task in done]


async def require_reads(job: Job) -> None:
    """Check that another job gets its replies."""
    for _ in range(20):
        assert (await job.etcd.get(f"{job.keys.everything}x")) is not None


async def test_unread_replies_are_limited_and_do_not_affect_another_job(
    secured: SecuredEtcd, attacker: Job, victim: Job
) -> None:
    async with bare_channel(attacker.endpoint) as channel, peak_of(secured) as peak:
        calls = [ask(channel, "Range", listing(attacker), rpc.RangeResponse) for _ in range(UNREAD)]
        await begun(calls)
        for _ in range(20):
            await require_reads(victim)
        await asyncio.sleep(1)  # etcd gives no sign when its memory stops growing
        assert peak.bytes < MOST, f"{peak.bytes / MIB:.0f} MiB"


async def test_unread_replies_to_writes_are_limited(secured: SecuredEtcd, attacker: Job) -> None:
    """The size of such a reply is not known in advance; one that is too large is refused after the write."""
    write = rpc.TxnRequest(
        success=[
            rpc.RequestOp(request_put=rpc.PutRequest(key=f"{attacker.keys.everything}00".encode())),
            rpc.RequestOp(request_range=listing(attacker)),
        ]
    )
    async with bare_channel(attacker.endpoint) as channel, peak_of(secured) as peak:
        calls = [ask(channel, "Txn", write, rpc.TxnResponse) for _ in range(UNREAD)]
        await begun(calls)
        await asyncio.sleep(3)
        assert peak.bytes < MOST, f"{peak.bytes / MIB:.0f} MiB"


async def test_an_unread_reply_frees_its_place_after_a_while(attacker: Job) -> None:
    """An unreachable node delays the others of its job for some seconds only."""
    async with bare_channel(attacker.endpoint) as channel:
        unread = ask(channel, "Range", listing(attacker), rpc.RangeResponse)
        await begun([unread])

        async def answered() -> Any:
            async with bare_channel(attacker.endpoint) as other:
                reply = await rpc.KVStub(other).Range(listing(attacker), timeout=60)
                return len(reply.kvs) == KEYS

        await aeventually(answered, within_s=90, what="a reply for another node")
        del unread


async def test_cancelled_reads_free_their_places(attacker: Job) -> None:
    async with bare_channel(attacker.endpoint) as channel:
        for _ in range(3):
            calls = [ask(channel, "Range", listing(attacker), rpc.RangeResponse) for _ in range(UNREAD)]
            await begun(calls)
            for call in calls:
                call.cancel()
            reply = await rpc.KVStub(channel).Range(listing(attacker), timeout=60)
            assert len(reply.kvs) == KEYS


async def test_many_concurrent_reads_all_get_their_replies(attacker: Job) -> None:
    """They read a hundred times the limit: they wait for each other, and none is refused."""
    async with contextlib.AsyncExitStack() as stack:
        channels = [await stack.enter_async_context(bare_channel(attacker.endpoint)) for _ in range(10)]
        asked = [rpc.KVStub(channel).Range(listing(attacker), timeout=120) for channel in channels for _ in range(5)]
        replies = await asyncio.gather(*asked)
    assert {len(reply.kvs) for reply in replies} == {KEYS}


async def test_a_read_has_all_earlier_writes(attacker: Job) -> None:
    for number in range(50):
        value = str(number).encode()
        await attacker.etcd.txn(Txn((), (Put(f"{attacker.keys.everything}count", value),)))
        found = await attacker.etcd.get(f"{attacker.keys.everything}count")
        assert found is not None
        assert found.value == value
        result = await attacker.etcd.txn(Txn((), (Get(f"{attacker.keys.everything}count"),)))
        assert result.reads[0][0].value == value


@pytest.mark.parametrize("reads", [3, 100])
async def test_a_transaction_that_reads_the_same_keys_again_and_again_is_refused(
    secured: SecuredEtcd, attacker: Job, reads: int
) -> None:
    again = Txn((), tuple(Get(attacker.keys.everything, prefix=True) for _ in range(reads)))
    async with peak_of(secured) as peak:
        with pytest.raises(RequestRejected, match=f"reads a key {reads} times"):
            await attacker.etcd.txn(again)
    assert peak.bytes < MOST


async def test_a_transaction_may_read_many_keys_once(attacker: Job) -> None:
    reads = tuple(Get(f"{attacker.keys.everything}{number:02}") for number in range(KEYS))
    result = await attacker.etcd.txn(Txn((), reads))
    assert len(result.reads) == KEYS


async def test_the_operators_reads_are_not_limited(root: EtcdClient, attacker: Job) -> None:
    again = Txn((), tuple(Get(attacker.keys.everything, prefix=True) for _ in range(3)))
    assert [len(read) for read in (await root.txn(again)).reads] == [KEYS] * 3


async def test_waiting_requests_are_limited(attacker: Job) -> None:
    """Excess requests are refused; a later request, when the others have ended, is not."""
    padded = rpc.RangeRequest(
        key=f"{attacker.keys.everything}00".encode(), range_end=f"{attacker.keys.everything}{'0' * MIB}".encode()
    )
    async with bare_channel(attacker.endpoint) as channel:
        unread = [ask(channel, "Range", listing(attacker), rpc.RangeResponse) for _ in range(3)]
        await begun(unread)
        many = [rpc.KVStub(channel).Range(padded, timeout=5) for _ in range(3 * BYTES // MIB)]
        outcomes = await asyncio.gather(*many, return_exceptions=True)
        codes = {error.code() for error in outcomes if isinstance(error, grpc.aio.AioRpcError)}
        assert grpc.StatusCode.RESOURCE_EXHAUSTED in codes
        for call in unread:
            call.cancel()
    assert await attacker.etcd.get(f"{attacker.keys.everything}00") is not None

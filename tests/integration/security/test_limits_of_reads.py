"""What etcd keeps in memory of one job's reads is bounded: replies that nobody takes, and transactions that read again.

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
"""A list of them is a reply of 8 MiB."""
UNREAD = 60
MOST = 200 * MIB
"""What etcd may take more, with garbage; all replies at once are 480 MiB, and twice that while they are made."""


@pytest.fixture(scope="module")
def secured(etcd_program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredEtcd]:
    """An etcd with a small limit, in place of the one without."""
    environment = {"ELASTICJOB_ETCD_MAX_BYTES": str(BYTES)}
    made = SecuredEtcd(tmp_path_factory.mktemp("limited"), etcd_program, environment=environment)
    yield made
    made.kill()


@pytest.fixture
async def attacker(secured: SecuredEtcd, root: EtcdClient) -> AsyncIterator[Job]:
    """Job A, with some megabytes below its prefix: somebody's code runs with its certificate."""
    async with job(secured, root, "a") as made:
        for number in range(KEYS):
            await made.etcd.txn(Txn((), (Put(f"{made.keys.everything}{number:02}", b"x" * VALUE),)))
        yield made


@pytest.fixture
async def victim(secured: SecuredEtcd, root: EtcdClient) -> AsyncIterator[Job]:
    """Job B: of other people."""
    async with job(secured, root, "b") as made:
        await made.etcd.txn(Txn((), (Put(f"{made.keys.everything}x", b"1"),)))
        yield made


class Peak:
    """The most memory that etcd had at any look, more than at the first."""

    def __init__(self, etcd: SecuredEtcd) -> None:
        self._process = psutil.Process(etcd.pid)
        self._first = self._last = self._process.memory_info().rss

    async def look_on(self) -> None:
        """Until it is canceled."""
        while True:
            self._last = max(self._last, self._process.memory_info().rss)
            await asyncio.sleep(0.01)

    @property
    def bytes(self) -> int:
        """What it took more."""
        return self._last - self._first


@contextlib.asynccontextmanager
async def peak_of(etcd: SecuredEtcd) -> AsyncIterator[Peak]:
    """Look at its memory meanwhile."""
    peak = Peak(etcd)
    looking = asyncio.create_task(peak.look_on())
    yield peak
    looking.cancel()


def listing(job: Job) -> Any:
    """A request for all of its keys."""
    return rpc.RangeRequest(**prefix_range(job.keys.everything))


def ask(channel: grpc.aio.Channel, method: str, request: Any, answer: Any) -> Any:
    """A call whose reply is not taken: as a stream it comes when it is read, and no more of it than the window."""
    made = channel.unary_stream(f"/etcdserverpb.KV/{method}", type(request).SerializeToString, answer.FromString)
    return made(request)


async def begun(calls: list[Any]) -> None:
    """The first reply has begun to come, or was refused."""
    waiting = [asyncio.create_task(call.wait_for_connection()) for call in calls]
    done, others = await asyncio.wait(waiting, timeout=60, return_when=asyncio.FIRST_COMPLETED)
    for task in others:
        task.cancel()
    assert [task.exception() for task in done]


async def read_as_ever(job: Job) -> None:
    """Another job has its answers."""
    for _ in range(20):
        assert (await job.etcd.get(f"{job.keys.everything}x")) is not None


async def test_replies_that_nobody_takes_are_bounded_and_another_job_does_not_feel_it(
    secured: SecuredEtcd, attacker: Job, victim: Job
) -> None:
    async with bare_channel(attacker.endpoint) as channel, peak_of(secured) as peak:
        calls = [ask(channel, "Range", listing(attacker), rpc.RangeResponse) for _ in range(UNREAD)]
        await begun(calls)
        for _ in range(20):
            await read_as_ever(victim)
        await asyncio.sleep(1)  # nothing says that etcd makes no more
        assert peak.bytes < MOST, f"{peak.bytes / MIB:.0f} MiB"


async def test_replies_to_writes_that_nobody_takes_are_bounded(secured: SecuredEtcd, attacker: Job) -> None:
    """Nobody knows how large they will be; what goes too far is refused after the write."""
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


async def test_a_reply_that_nobody_takes_makes_room_after_a_while(attacker: Job) -> None:
    """A node that is cut off keeps the others of its job waiting for some seconds, and no longer."""
    async with bare_channel(attacker.endpoint) as channel:
        unread = ask(channel, "Range", listing(attacker), rpc.RangeResponse)
        await begun([unread])

        async def answered() -> Any:
            async with bare_channel(attacker.endpoint) as other:
                reply = await rpc.KVStub(other).Range(listing(attacker), timeout=60)
                return len(reply.kvs) == KEYS

        await aeventually(answered, within_s=90, what="a reply for another node")
        del unread


async def test_reads_that_are_given_up_make_room(attacker: Job) -> None:
    async with bare_channel(attacker.endpoint) as channel:
        for _ in range(3):
            calls = [ask(channel, "Range", listing(attacker), rpc.RangeResponse) for _ in range(UNREAD)]
            await begun(calls)
            for call in calls:
                call.cancel()
            reply = await rpc.KVStub(channel).Range(listing(attacker), timeout=60)
            assert len(reply.kvs) == KEYS


async def test_many_nodes_that_read_at_once_all_have_their_answers(attacker: Job) -> None:
    """They read a hundred times the limit: they wait for each other, and none is refused."""
    async with contextlib.AsyncExitStack() as stack:
        channels = [await stack.enter_async_context(bare_channel(attacker.endpoint)) for _ in range(10)]
        asked = [rpc.KVStub(channel).Range(listing(attacker), timeout=120) for channel in channels for _ in range(5)]
        replies = await asyncio.gather(*asked)
    assert {len(reply.kvs) for reply in replies} == {KEYS}


async def test_a_read_sees_what_was_written_before_it(attacker: Job) -> None:
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


async def test_the_operator_reads_what_it_wants(root: EtcdClient, attacker: Job) -> None:
    again = Txn((), tuple(Get(attacker.keys.everything, prefix=True) for _ in range(3)))
    assert [len(read) for read in (await root.txn(again)).reads] == [KEYS] * 3


async def test_requests_that_wait_are_bounded(attacker: Job) -> None:
    """They are refused, and one that comes when they are gone is not."""
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

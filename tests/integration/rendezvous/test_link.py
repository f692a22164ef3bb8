"""The link over real sockets: hellos, proofs of an end, and connections of strangers."""

import asyncio
import contextlib
import itertools
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elasticjob_agent.net.servers import close_server
from elasticjob_agent.rendezvous.leader.dial import dial, is_own
from elasticjob_agent.rendezvous.leader.links import LeaderLinks
from elasticjob_agent.rendezvous.member.link_listener import MAX_UNAUTHENTICATED, LinkListener
from elasticjob_agent.rendezvous.protocol import link_handshake
from elasticjob_agent.rendezvous.protocol.crash_proof import DialOutcome
from elasticjob_agent.rendezvous.protocol.link_handshake import Address, Authenticator, Hello, Peer
from elasticjob_agent.rendezvous.protocol.transactions import SessionIdentity
from elasticjob_agent.tracing import Tracer
from elasticjob_api.keys import Keys
from elasticjob_api.records import NodeRecord
from elasticjob_api.rendezvous_state import Member, RendezvousState, RoundPhase
from elasticjob_api.rendezvous_view import NodeEntry, RendezvousView
from testing.waiting import aeventually

JOB = "/elasticjob/cli/link"
CLOSER = Member(0, "c" * 8)
MINE = Hello(JOB, CLOSER, "0000000000000001")
KEY = b"k" * 32
HOST = "127.0.0.1"
_draws = itertools.count(0x1000)


def random_hex() -> str:
    return f"{next(_draws):08x}"


def member(slot: int) -> Member:
    return Member(slot, f"{slot:08x}")


class Nodes:
    """Listeners of some nodes, and the links that ended there."""

    def __init__(self) -> None:
        self.ended: list[Member] = []
        self.listeners: dict[Member, LinkListener] = {}

    async def listen(self, slot: int = 1) -> Address:
        """Open one more listener."""
        listener = LinkListener(HOST, random_hex=random_hex, on_end=lambda peer: self.ended.append(peer.member))
        await listener.open()
        listener.key = KEY
        listener.set_identity(JOB, member(slot))
        self.listeners[member(slot)] = listener
        assert listener.address is not None
        return listener.address

    def view(self, phase: RoundPhase = RoundPhase.ACTIVE) -> RendezvousView:
        """Return a view with all of them as live nodes of a round."""
        live: dict[Member, NodeEntry] = {}
        for who, listener in self.listeners.items():
            assert listener.address is not None
            record = NodeRecord(
                pod="", pod_uid="", lease=1, host="", address=HOST, nproc=1, link_port=listener.address.port
            )
            live[who] = NodeEntry(who, record, 1)
        state = RendezvousState(phase=phase, round=1, nonce="n")
        return RendezvousView(state=state, link_secret=KEY, nodes=live)


@pytest.fixture
async def nodes() -> AsyncIterator[Nodes]:
    """Return nodes, which are closed at the end."""
    made = Nodes()
    yield made
    for listener in made.listeners.values():
        await listener.close()


@pytest.fixture
async def links() -> AsyncIterator[LeaderLinks]:
    """Return a leader's links, which are closed at the end."""
    clock = asyncio.get_running_loop().time
    me = SessionIdentity(Keys(JOB), CLOSER, 1)
    made = LeaderLinks(me=me, clock=clock, random_hex=random_hex, trace=Tracer(None, ""), on_proof=lambda: None)
    yield made
    await made.close()


Serve = Callable[[Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]], Awaitable[Address]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Return a function that starts any other server, on its own port."""
    servers: list[asyncio.Server] = []

    async def start(answer: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]) -> Address:
        servers.append(await asyncio.start_server(answer, HOST, 0))
        return Address(HOST, servers[-1].sockets[0].getsockname()[1])

    yield start
    for server in servers:
        await close_server(server)


async def test_the_dialed_node_answers_with_its_own_hello(nodes: Nodes) -> None:
    result = await dial(await nodes.listen(), MINE, member(1), KEY)
    assert result.outcome is DialOutcome.PEER
    result.close()


async def test_the_dialed_node_reports_which_link_ended(nodes: Nodes) -> None:
    result = await dial(await nodes.listen(), MINE, member(1), KEY)
    assert nodes.ended == []
    result.close()
    await aeventually(lambda: nodes.ended == [CLOSER])


async def test_another_incarnation_answers_with_its_own_hello(nodes: Nodes) -> None:
    assert (await dial(await nodes.listen(), MINE, member(2), KEY)).outcome is DialOutcome.OTHER


async def test_a_port_without_a_listener_refuses(nodes: Nodes) -> None:
    address = await nodes.listen()
    await nodes.listeners[member(1)].close()
    assert (await dial(address, MINE, member(1), KEY)).outcome is DialOutcome.REFUSED


async def test_a_socket_that_connected_to_itself_is_recognised() -> None:
    with socket.create_server((HOST, 0)) as held:
        own = held.getsockname()
    _reader, writer = await asyncio.open_connection(*own, local_addr=own)
    assert is_own(writer)
    writer.transport.abort()


async def test_a_link_is_not_a_socket_that_connected_to_itself(nodes: Nodes) -> None:
    result = await dial(await nodes.listen(), MINE, member(1), KEY)
    assert result.writer is not None
    assert not is_own(result.writer)
    result.close()


@pytest.mark.parametrize("data", [b"", b"HTTP/1.1 400\r\n", b"x" * 100_000, b"\n", b"\xff\n"])
async def test_an_answer_without_a_hello_proves_nothing(serve: Serve, data: bytes) -> None:
    async def say(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        writer.close()

    assert (await dial(await serve(say), MINE, member(1), KEY)).outcome is DialOutcome.TIMEOUT


async def test_no_answer_proves_nothing(serve: Serve) -> None:
    async def be_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    assert (await dial(await serve(be_silent), MINE, member(1), KEY, within_s=0.05)).outcome is DialOutcome.TIMEOUT


async def test_an_unknown_host_name_proves_nothing() -> None:
    assert (await dial(Address("no-such-host.invalid", 1), MINE, member(1), KEY)).outcome is DialOutcome.TIMEOUT


@pytest.mark.parametrize("data", [b"", b"GET / HTTP/1.1\r\n\r\n", b"x" * 100_000, b"\n", b"\xff" * 10])
async def test_a_stranger_is_dropped_and_does_no_harm(nodes: Nodes, data: bytes) -> None:
    address = await nodes.listen()
    reader, writer = await asyncio.open_connection(address.host, address.port)
    writer.write(data)
    writer.write_eof()
    with contextlib.suppress(ConnectionError):
        assert (await reader.read()).count(b"\n") <= 1, "more than a challenge was sent"
    writer.close()
    result = await dial(address, MINE, member(1), KEY)
    assert (result.outcome, nodes.ended) == (DialOutcome.PEER, [])
    result.close()


async def test_a_flood_of_silent_strangers_finds_few_places_and_blocks_no_agent(nodes: Nodes) -> None:
    address = await nodes.listen()
    before = await dial(address, MINE, member(1), KEY)
    flood = [await asyncio.open_connection(address.host, address.port) for _ in range(MAX_UNAUTHENTICATED + 5)]
    dropped = [asyncio.create_task(reader.read()) for reader, _ in flood]
    await aeventually(lambda: sum(task.done() for task in dropped) >= 5)
    after = await dial(address, MINE, member(1), KEY)
    assert (before.outcome, after.outcome, nodes.ended) == (DialOutcome.PEER, DialOutcome.PEER, [])
    for task, (_, writer) in zip(dropped, flood, strict=True):
        writer.transport.abort()
        with contextlib.suppress(ConnectionError):
            await task
    before.close()
    after.close()
    await aeventually(lambda: nodes.ended == [CLOSER] * 2)


async def replies_to(address: Address, *pieces: bytes) -> bytes:
    """Return all that a listener sends to a client that sends this; the listener closes the connection."""
    reader, writer = await asyncio.open_connection(address.host, address.port)
    heard = b""
    with contextlib.suppress(ConnectionError):
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        async with asyncio.timeout(30):
            heard = await reader.read()
    writer.transport.abort()
    return heard


async def test_a_stranger_that_sends_nothing_is_dropped_in_time(nodes: Nodes) -> None:
    heard = await replies_to(await nodes.listen())
    assert heard in {b"", link_handshake.encode_challenge(link_handshake.decode_challenge(heard))}


@pytest.mark.parametrize("key", [b"K" * 32, b""], ids=["another job's", "none"])
async def test_a_hello_with_another_key_gets_no_answer(nodes: Nodes, key: bytes) -> None:
    address = await nodes.listen()
    assert (await dial(address, MINE, member(1), key)).outcome is DialOutcome.TIMEOUT
    assert nodes.ended == []


async def test_an_answer_without_the_key_proves_nothing(serve: Serve) -> None:
    async def pretend(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(link_handshake.encode_challenge("0" * 16))
        await reader.readline()
        authenticator = Authenticator(b"guessed" * 5, Peer.ANSWERS, MINE.nonce)
        writer.write(link_handshake.encode(Hello(JOB, Member(1, "f" * 8), "0" * 16), authenticator))
        writer.close()

    assert (await dial(await serve(pretend), MINE, member(1), KEY)).outcome is DialOutcome.TIMEOUT


async def test_a_recorded_hello_of_one_link_opens_no_other(nodes: Nodes) -> None:
    address = await nodes.listen()
    reader, writer = await asyncio.open_connection(address.host, address.port)
    challenge = link_handshake.decode_challenge(await reader.readline())
    recorded = link_handshake.encode(MINE, Authenticator(KEY, Peer.DIALS, challenge))
    writer.write(recorded)
    assert link_handshake.decode(
        await reader.readline(), Authenticator(KEY, Peer.ANSWERS, MINE.nonce)
    ).member == member(1)
    assert (await replies_to(address, recorded)).count(b"\n") <= 1, "more than a challenge was sent"
    writer.transport.abort()


async def test_without_a_key_a_node_sends_nothing(nodes: Nodes, links: LeaderLinks) -> None:
    address = await nodes.listen()
    nodes.listeners[member(1)].key = None
    assert await replies_to(address) == b""
    links.update(replace(nodes.view(), link_secret=None))
    assert links._tasks == {}


lines = st.one_of(
    st.binary(max_size=300),
    st.binary(max_size=100).map(lambda data: data + b"\n"),
    st.from_regex(rb"elasticjob-link/[12] /e [0-9a-f]{4} [0-9a-f]{8} [0-9a-f]{16} [0-9a-f]{64}\n", fullmatch=True),
    st.just(b"x" * 5000),
)


@settings(max_examples=30, deadline=None)
@given(st.lists(lines, min_size=1, max_size=3))
def test_a_stranger_receives_at_most_a_challenge(pieces: list[bytes]) -> None:
    async def run() -> None:
        nodes = Nodes()
        address = await nodes.listen()
        assert (await replies_to(address, *pieces, b"\n")).count(b"\n") <= 1
        result = await dial(address, MINE, member(1), KEY)
        assert (result.outcome, nodes.ended) == (DialOutcome.PEER, [])
        result.close()
        await nodes.listeners[member(1)].close()

    asyncio.run(run())


def being_accepted() -> bool:
    """Return whether a connection is being accepted and its transport is not created yet."""
    return any("_accept_connection2" in repr(task) for task in asyncio.all_tasks())


async def test_a_connection_at_the_moment_of_the_end_is_closed(nodes: Nodes) -> None:
    address = await nodes.listen()
    with socket.create_connection((address.host, address.port), timeout=20) as client:
        async with asyncio.timeout(20):
            while not being_accepted():  # noqa: ASYNC110 -- it is the turns of the loop that count
                await asyncio.sleep(0)
        await nodes.listeners[member(1)].close()
        with contextlib.suppress(ConnectionError):
            assert await asyncio.to_thread(client.recv, 1) == b""


async def test_before_its_join_a_node_answers_no_dial() -> None:
    listener = LinkListener(HOST, random_hex=random_hex, on_end=lambda _: None)
    listener.key = KEY
    await listener.open()
    assert listener.address is not None
    assert (await dial(listener.address, MINE, member(1), KEY)).outcome is DialOutcome.TIMEOUT
    await listener.close()


async def test_an_address_of_another_host_means_no_link_and_no_failure() -> None:
    listener = LinkListener("192.0.2.1", random_hex=random_hex, on_end=lambda _: None)
    await listener.open()
    assert listener.address is None
    await listener.close()


# The leader's links.


async def linked(nodes: Nodes, links: LeaderLinks, *slots: int) -> None:
    """Wait until all of these nodes have the leader's hello."""
    for slot in slots:
        await nodes.listen(slot)
    links.update(nodes.view())
    await aeventually(lambda: all(len(node._links) == 1 for node in nodes.listeners.values()), within_s=30)


async def test_only_the_end_of_the_ended_node_is_proved(nodes: Nodes, links: LeaderLinks) -> None:
    await linked(nodes, links, 1, 2, 3)
    await nodes.listeners[member(2)].close()
    await aeventually(lambda: links.proved == {member(2)}, within_s=30)


async def test_a_later_session_of_the_same_process_proves_the_end_of_the_earlier_one(
    nodes: Nodes, links: LeaderLinks
) -> None:
    await linked(nodes, links, 1)
    nodes.listeners[member(1)].set_identity(JOB, Member(1, "f" * 8))
    await aeventually(lambda: links.proved == {member(1)}, within_s=30)


async def test_a_link_that_is_cut_between_live_nodes_is_established_again(nodes: Nodes, links: LeaderLinks) -> None:
    await linked(nodes, links, 1)
    (cut,) = nodes.listeners[member(1)]._links.values()
    cut.transport.abort()
    await aeventually(lambda: cut not in (now := nodes.listeners[member(1)]._links.values()) and len(now) == 1)
    assert links.proved == frozenset()


async def test_the_proof_and_the_link_go_with_the_node_key(nodes: Nodes, links: LeaderLinks) -> None:
    await linked(nodes, links, 1, 2)
    await nodes.listeners[member(2)].close()
    await aeventually(lambda: links.proved == {member(2)}, within_s=30)
    links.update(replace(nodes.view(), nodes={}))
    assert links.proved == frozenset()
    await aeventually(lambda: nodes.ended[-1:] == [CLOSER])


async def test_no_link_is_opened_while_a_round_forms(nodes: Nodes, links: LeaderLinks) -> None:
    await nodes.listen(1)
    links.update(nodes.view(RoundPhase.FORMING))
    assert links._tasks == {}


@pytest.mark.parametrize("end", [RoundPhase.SUCCEEDED, RoundPhase.FAILED])
async def test_after_the_end_of_the_job_no_node_is_monitored(nodes: Nodes, links: LeaderLinks, end: RoundPhase) -> None:
    await linked(nodes, links, 1, 2)
    links.update(nodes.view(end), predecessor_crashed=True)
    assert links._tasks == {}
    await aeventually(lambda: nodes.ended == [CLOSER] * 2)


async def test_many_links_at_once(nodes: Nodes, links: LeaderLinks) -> None:
    await linked(nodes, links, *range(1, 201))
    assert links.proved == frozenset()


def test_the_line_of_a_hello_fits_into_the_read_limit() -> None:
    line = link_handshake.encode(Hello("/" + "n" * 900, member(1), "0" * 16), Authenticator(KEY, Peer.DIALS, "0" * 16))
    assert len(line) < link_handshake.MAX_BYTES

"""The link over real sockets: who is greeted, what is proof, and whom no stranger harms."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from elasticjob_agent.rendezvous import link_hello
from elasticjob_agent.rendezvous.link import Heard
from elasticjob_agent.rendezvous.link_closer import CloserLinks
from elasticjob_agent.rendezvous.link_dial import dial
from elasticjob_agent.rendezvous.link_hello import Address, Hello
from elasticjob_agent.rendezvous.link_listener import MOST_STRANGERS, LinkListener
from elasticjob_agent.rendezvous.txns import Identity
from elasticjob_agent.rendezvous.view import LiveNode, View
from elasticjob_agent.trace import Trace
from elasticjob_api.keys import Keys
from elasticjob_api.records import Node
from elasticjob_api.world import Member, State, World
from tests.faults.waiting import aeventually

JOB = "/elasticjob/cli/link"
CLOSER = Member(0, "c" * 8)
MINE = Hello(JOB, CLOSER, "00000001")
HOST = "127.0.0.1"
_draws = itertools.count(0x1000)


def draw() -> str:
    return f"{next(_draws):08x}"


def member(slot: int) -> Member:
    return Member(slot, f"{slot:08x}")


class Nodes:
    """Listeners of some nodes, and whose links ended there."""

    def __init__(self) -> None:
        self.ended: list[Member] = []
        self.listeners: dict[Member, LinkListener] = {}

    async def listen(self, slot: int = 1) -> Address:
        """One more listener."""
        listener = LinkListener(HOST, draw=draw, on_end=lambda peer: self.ended.append(peer.member))
        await listener.open()
        listener.answer_as(JOB, member(slot))
        self.listeners[member(slot)] = listener
        assert listener.address is not None
        return listener.address

    def view(self) -> View:
        """All of them as live nodes of a running round."""
        view = View(world=World(state=State.ACTIVE, round=1, nonce="n"))
        for who, listener in self.listeners.items():
            assert listener.address is not None
            record = Node(pod="", pod_uid="", lease=1, host="", address=HOST, nproc=1, link_port=listener.address.port)
            view.nodes[who] = LiveNode(who, record, 1)
        return view


@pytest.fixture
async def nodes() -> AsyncIterator[Nodes]:
    """Closed at the end."""
    made = Nodes()
    yield made
    for listener in made.listeners.values():
        await listener.close()


@pytest.fixture
async def links() -> AsyncIterator[CloserLinks]:
    """A closer's links, closed at the end."""
    clock = asyncio.get_running_loop().time
    me = Identity(Keys(JOB), CLOSER, 1)
    made = CloserLinks(me=me, clock=clock, draw=draw, trace=Trace(None, ""), on_proof=lambda: None)
    yield made
    await made.close()


Serve = Callable[[Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]], Awaitable[Address]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Any other server, on a port of its own."""
    servers: list[asyncio.Server] = []

    async def start(answer: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]) -> Address:
        servers.append(await asyncio.start_server(answer, HOST, 0))
        return Address(HOST, servers[-1].sockets[0].getsockname()[1])

    yield start
    for server in servers:
        server.close()


async def test_who_is_dialed_answers_with_its_own_hello(nodes: Nodes) -> None:
    dialed = await dial(await nodes.listen(), MINE, member(1))
    assert dialed.heard is Heard.THEIRS
    dialed.hang_up()


async def test_the_one_dialed_is_told_whose_link_ended(nodes: Nodes) -> None:
    dialed = await dial(await nodes.listen(), MINE, member(1))
    assert nodes.ended == []
    dialed.hang_up()
    await aeventually(lambda: nodes.ended == [CLOSER])


async def test_another_incarnation_answers_for_itself(nodes: Nodes) -> None:
    assert (await dial(await nodes.listen(), MINE, member(2))).heard is Heard.OTHER


async def test_a_port_where_nobody_listens_refuses(nodes: Nodes) -> None:
    address = await nodes.listen()
    await nodes.listeners[member(1)].close()
    assert (await dial(address, MINE, member(1))).heard is Heard.REFUSED


async def test_a_socket_that_connected_to_itself_is_recognised(serve: Serve) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readline())
        writer.close()

    assert (await dial(await serve(echo), MINE, member(1))).heard is Heard.OWN


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 400\r\n", b"x" * 100_000, b"\n", b"\xff\n"])
async def test_an_answer_that_is_no_hello_proves_nothing(serve: Serve, said: bytes) -> None:
    async def say(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(said)
        writer.close()

    assert (await dial(await serve(say), MINE, member(1))).heard is Heard.NOTHING


async def test_silence_proves_nothing(serve: Serve) -> None:
    async def be_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    assert (await dial(await serve(be_silent), MINE, member(1), within_s=0.05)).heard is Heard.NOTHING


async def test_a_name_that_nobody_knows_proves_nothing() -> None:
    assert (await dial(Address("no-such-host.invalid", 1), MINE, member(1))).heard is Heard.NOTHING


@pytest.mark.parametrize("said", [b"", b"GET / HTTP/1.1\r\n\r\n", b"x" * 100_000, b"\n", b"\xff" * 10])
async def test_a_stranger_is_dropped_and_harms_nobody(nodes: Nodes, said: bytes) -> None:
    address = await nodes.listen()
    reader, writer = await asyncio.open_connection(address.host, address.port)
    writer.write(said)
    writer.write_eof()
    with contextlib.suppress(ConnectionError):
        assert await reader.read() == b""
    writer.close()
    dialed = await dial(address, MINE, member(1))
    assert (dialed.heard, nodes.ended) == (Heard.THEIRS, [])
    dialed.hang_up()


async def test_a_flood_of_silent_strangers_finds_few_places_and_those_before_them_stay(nodes: Nodes) -> None:
    address = await nodes.listen()
    dialed = await dial(address, MINE, member(1))
    flood = [await asyncio.open_connection(address.host, address.port) for _ in range(MOST_STRANGERS + 5)]
    dropped = [asyncio.create_task(reader.read()) for reader, _ in flood]
    await aeventually(lambda: sum(task.done() for task in dropped) == 5)
    assert nodes.ended == []
    for task, (_, writer) in zip(dropped, flood, strict=True):
        writer.transport.abort()
        with contextlib.suppress(ConnectionError):
            await task
    dialed.hang_up()
    await aeventually(lambda: nodes.ended == [CLOSER])


async def test_before_it_has_joined_a_node_answers_nobody() -> None:
    listener = LinkListener(HOST, draw=draw, on_end=lambda _: None)
    await listener.open()
    assert listener.address is not None
    assert (await dial(listener.address, MINE, member(1))).heard is Heard.NOTHING
    await listener.close()


async def test_an_address_of_another_host_means_no_link_and_no_failure() -> None:
    listener = LinkListener("192.0.2.1", draw=draw, on_end=lambda _: None)
    await listener.open()
    assert listener.address is None
    await listener.close()


# The closer's links.


async def linked(nodes: Nodes, links: CloserLinks, *slots: int) -> None:
    """All of these nodes have the closer's hello."""
    for slot in slots:
        await nodes.listen(slot)
    links.mind(nodes.view())
    await aeventually(lambda: all(len(node._links) == 1 for node in nodes.listeners.values()), within_s=30)


async def test_the_end_of_a_node_is_proved_and_that_of_no_other(nodes: Nodes, links: CloserLinks) -> None:
    await linked(nodes, links, 1, 2, 3)
    await nodes.listeners[member(2)].close()
    await aeventually(lambda: links.proved == {member(2)}, within_s=30)


async def test_a_later_stay_of_the_same_process_proves_that_the_earlier_one_is_over(
    nodes: Nodes, links: CloserLinks
) -> None:
    await linked(nodes, links, 1)
    nodes.listeners[member(1)].answer_as(JOB, Member(1, "f" * 8))
    await aeventually(lambda: links.proved == {member(1)}, within_s=30)


async def test_a_link_that_is_cut_while_both_live_is_made_again(nodes: Nodes, links: CloserLinks) -> None:
    await linked(nodes, links, 1)
    (cut,) = nodes.listeners[member(1)]._links.values()
    cut.transport.abort()
    await aeventually(lambda: cut not in (now := nodes.listeners[member(1)]._links.values()) and len(now) == 1)
    assert links.proved == frozenset()


async def test_proof_is_forgotten_with_the_key_and_so_is_the_link(nodes: Nodes, links: CloserLinks) -> None:
    await linked(nodes, links, 1, 2)
    await nodes.listeners[member(2)].close()
    await aeventually(lambda: links.proved == {member(2)}, within_s=30)
    view = nodes.view()
    view.nodes.clear()
    links.mind(view)
    assert links.proved == frozenset()
    await aeventually(lambda: nodes.ended[-1:] == [CLOSER])


async def test_no_link_is_begun_while_a_round_forms(nodes: Nodes, links: CloserLinks) -> None:
    await nodes.listen(1)
    view = nodes.view()
    view.world = World(state=State.FORMING, round=2, nonce="n")
    links.mind(view)
    assert links._tasks == {}


async def test_many_links_stand_at_once(nodes: Nodes, links: CloserLinks) -> None:
    await linked(nodes, links, *range(1, 201))
    assert links.proved == frozenset()


def test_the_line_of_a_hello_fits_what_is_read_of_it() -> None:
    assert len(link_hello.encode(Hello("/" + "n" * 900, member(1), "0" * 8))) < link_hello.MOST_BYTES

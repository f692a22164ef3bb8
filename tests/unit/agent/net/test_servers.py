"""A server that is closed hands over each connection that it has accepted, also one at the last moment."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable

import pytest

from elasticjob_agent.net.servers import close_server


class Host:
    """A server, and the connections that its callback received."""

    def __init__(self) -> None:
        self.connections: list[asyncio.StreamWriter] = []

    async def serve(self) -> asyncio.Server:
        self.server = await asyncio.start_server(self._on_connection, "127.0.0.1", 0)
        return self.server

    async def _on_connection(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections.append(writer)

    def dial(self) -> socket.socket:
        return socket.create_connection(self.server.sockets[0].getsockname())


@pytest.fixture
async def host() -> AsyncIterator[Host]:
    made = Host()
    server = await made.serve()
    yield made
    server.close()
    for writer in made.connections:
        writer.transport.abort()


def accepted() -> bool:
    """Whether asyncio has accepted a connection and not yet made its transport."""
    return any("_accept_connection2" in repr(task) for task in asyncio.all_tasks())


async def turns_until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not holds():  # noqa: ASYNC110 -- the test counts turns of the loop
            await asyncio.sleep(0)


async def test_a_connection_that_is_just_being_accepted_is_handed_over(host: Host) -> None:
    with host.dial():
        await turns_until(accepted)
        await close_server(host.server)
        assert len(host.connections) == 1


async def test_an_open_connection_stays_open(host: Host) -> None:
    with host.dial() as client:
        await turns_until(lambda: len(host.connections) == 1)
        await close_server(host.server)
        host.connections[0].write(b"still here")
        assert await asyncio.to_thread(client.recv, 10) == b"still here"


async def test_no_connection_is_accepted_afterwards(host: Host) -> None:
    address = host.server.sockets[0].getsockname()
    await close_server(host.server)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address)
    await close_server(host.server)


async def test_a_cancelled_close_has_closed_the_listener(host: Host) -> None:
    task = asyncio.create_task(close_server(host.server))
    await asyncio.sleep(0)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert not host.server.is_serving()

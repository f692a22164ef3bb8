"""A server that ends hands over whom it has accepted, however late that one came."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable

import pytest

from elasticjob_agent.net.servers import close_server


class Host:
    """A server, and whom it was told of."""

    def __init__(self) -> None:
        self.met: list[asyncio.StreamWriter] = []

    async def serve(self) -> asyncio.Server:
        self.server = await asyncio.start_server(self._meet, "127.0.0.1", 0)
        return self.server

    async def _meet(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.met.append(writer)

    def dial(self) -> socket.socket:
        return socket.create_connection(self.server.sockets[0].getsockname())


@pytest.fixture
async def host() -> AsyncIterator[Host]:
    made = Host()
    server = await made.serve()
    yield made
    server.close()
    for writer in made.met:
        writer.transport.abort()


def accepted() -> bool:
    """A connection is on its way, and its transport is not yet made."""
    return any("_accept_connection2" in repr(task) for task in asyncio.all_tasks())


async def turns_until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not holds():  # noqa: ASYNC110 -- it is the turns of the loop that count
            await asyncio.sleep(0)


async def test_a_connection_that_is_just_being_accepted_is_handed_over(host: Host) -> None:
    with host.dial():
        await turns_until(accepted)
        await close_server(host.server)
        assert len(host.met) == 1


async def test_a_connection_that_stands_goes_on(host: Host) -> None:
    with host.dial() as client:
        await turns_until(lambda: len(host.met) == 1)
        await close_server(host.server)
        host.met[0].write(b"still here")
        assert await asyncio.to_thread(client.recv, 10) == b"still here"


async def test_nobody_is_accepted_afterwards(host: Host) -> None:
    address = host.server.sockets[0].getsockname()
    await close_server(host.server)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address)
    await close_server(host.server)


async def test_whoever_is_cancelled_at_it_has_closed_the_listener(host: Host) -> None:
    task = asyncio.create_task(close_server(host.server))
    await asyncio.sleep(0)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert not host.server.is_serving()

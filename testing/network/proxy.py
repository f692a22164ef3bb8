"""A TCP proxy that misbehaves on demand: a faulty network between a client and a server.

It runs in a thread of its own with its own event loop, so that plain tests can use it beside real processes:

    with proxy("127.0.0.1", 2379) as way:
        start_something(way.endpoint)
        way.stall()

Each order applies to existing and future connections, from the return of the call.
"""

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Collection, Coroutine, Iterator
from pathlib import Path
from typing import Any

from elasticjob_agent.net.servers import close_server

_HOST = "127.0.0.1"
_READ_BYTES = 65536
_TIMEOUT_S = 20.0


class _ProxyServer:
    """The proxy itself; all of it runs in its event loop."""

    def __init__(self, host: str, port: int, at: str) -> None:
        self.port = 0
        self.at = at
        self._target = (host, port)
        self._flows = asyncio.Event()
        self._flows.set()
        self._delay_s = 0.0
        self._cuts = False
        self._refused: Callable[[int], bool] = _refuse_no_port
        """Whether the client at this port is cut off."""
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def listen(self) -> None:
        """Accept connections, always at the same port."""
        if self._server is None:
            self._server = await asyncio.start_server(self._accept, self.at, self.port)
            self.port = int(self._server.sockets[0].getsockname()[1])

    async def configure(self, *, flows: bool, delay_s: float = 0.0, cuts: bool = False, listens: bool = True) -> None:
        """Apply this behaviour from now on."""
        self._delay_s, self._cuts = delay_s, cuts
        if flows:
            self._flows.set()
        else:
            self._flows.clear()
        if cuts:
            self._reset_all()
        if listens:
            await self.listen()
        elif self._server is not None:
            server, self._server = self._server, None
            await close_server(server)

    async def refuse_some(self, refused: Callable[[int], bool]) -> None:
        """Reset the connections of these clients, and each new one at once."""
        self._refused = refused
        for writer in list(self._writers):
            if refused(_port_of(writer)):
                _reset(writer)

    async def close(self) -> None:
        """Reset every connection and stop listening."""
        await self.configure(flows=True, cuts=True, listens=False)
        self._reset_all()  # also those accepted meanwhile
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _reset_all(self) -> None:
        for writer in list(self._writers):
            _reset(writer)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)  # not in the task: one that is cancelled at once never begins
        task = asyncio.get_running_loop().create_task(self._carry(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if self._cuts or self._refused(_port_of(writer)):
                _reset(writer)
                return
            await self._flows.wait()
            far_reader, far_writer = await asyncio.open_connection(*self._target)
            self._writers.add(far_writer)
            try:
                await asyncio.gather(self._pump(reader, far_writer), self._pump(far_reader, writer))
            finally:
                await self._end(far_writer)
        except OSError:
            _reset(writer)  # one end is closed, so is the other
        finally:
            await self._end(writer)

    async def _end(self, writer: asyncio.StreamWriter) -> None:
        """Send the rest of the data; if the other end reads nothing, until a reset."""
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
        self._writers.discard(writer)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(_READ_BYTES):
            await self._flows.wait()
            if self._delay_s:
                await asyncio.sleep(self._delay_s)
            writer.write(data)
            await writer.drain()
        writer.write_eof()


def _refuse_no_port(_port: int) -> bool:
    return False


def _port_of(writer: asyncio.StreamWriter) -> int:
    """Return the port of the other end; 0 for a closed connection."""
    peer = writer.get_extra_info("peername")
    return int(peer[1]) if peer else 0


def _reset(writer: asyncio.StreamWriter) -> None:
    """End a connection with RST instead of FIN."""
    with contextlib.suppress(OSError):  # it is closed already
        no_linger = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, no_linger)
    writer.transport.abort()


class Proxy:
    """A running proxy; its clients use `endpoint`."""

    def __init__(self, ways: _ProxyServer, loop: asyncio.AbstractEventLoop) -> None:
        self._server = ways
        self._loop = loop

    @property
    def endpoint(self) -> str:
        """`host:port`."""
        return f"{self._server.at}:{self._server.port}"

    def restore(self) -> None:
        """Forward everything, as at the beginning; stalled data is sent."""
        self._configure(self._server.configure(flows=True))

    def stall(self) -> None:
        """Keep connections open and accept new ones, but forward no byte: a full queue, a dead switch."""
        self._configure(self._server.configure(flows=False))

    def delay(self, seconds: float) -> None:
        """Delay each chunk of data by so much."""
        self._configure(self._server.configure(flows=True, delay_s=seconds))

    def cut(self) -> None:
        """Reset every connection, and every new one at once."""
        self._configure(self._server.configure(flows=True, cuts=True))

    def refuse(self) -> None:
        """Reset every connection and stop listening."""
        self._configure(self._server.configure(flows=True, cuts=True, listens=False))

    def refuse_processes(self, pids: Collection[int]) -> None:
        """Cut these processes off and forward all others; an empty collection ends it, `restore` does not."""

        def refused(port: int) -> bool:
            return bool(pids) and bool(_sockets_at(port) & _open_sockets(pids))

        self._configure(self._server.refuse_some(refused))

    def _configure(self, order: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(order, self._loop).result(_TIMEOUT_S)


def _sockets_at(port: int) -> set[str]:
    """Return the links of the sockets whose own port is this one.

    psutil reads the whole table for each process. That takes longer than a client waits, on a busy machine.
    """
    own = f":{port:04X}"
    tables = (Path(table).read_text(encoding="ascii") for table in ("/proc/net/tcp", "/proc/net/tcp6"))
    rows = [row.split() for table in tables for row in table.splitlines() if own in row]
    return {f"socket:[{columns[9]}]" for columns in rows if columns[1].endswith(own)}


def _open_sockets(pids: Collection[int]) -> set[str]:
    links: set[str] = set()
    for pid in pids:
        with contextlib.suppress(OSError):  # it has ended
            for file in Path(f"/proc/{pid}/fd").iterdir():
                with contextlib.suppress(OSError):  # it is closed
                    links.add(str(file.readlink()))
    return links


@contextlib.contextmanager
def proxy(host: str, port: int, *, at: str = _HOST) -> Iterator[Proxy]:
    """A proxy before `host:port` that is closed at the end; it listens on `at`."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="proxy", daemon=True)
    thread.start()

    def do(order: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(order, loop).result(_TIMEOUT_S)

    ways = _ProxyServer(host, port, at)
    try:
        do(ways.listen())
        yield Proxy(ways, loop)
    finally:
        with contextlib.ExitStack() as ending:
            ending.callback(loop.close)
            ending.callback(thread.join, _TIMEOUT_S)
            ending.callback(loop.call_soon_threadsafe, loop.stop)
            do(ways.close())

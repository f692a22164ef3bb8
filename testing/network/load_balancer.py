"""One address for several servers, as a Service of Kubernetes: each connection goes to one that the test chooses.

It runs in the test's own event loop. A server may be suspended; like kube-proxy, it does not detect that.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable

from elasticjob_agent.net.servers import close_server

_HOST = "127.0.0.1"
_READ_BYTES = 65536


class LoadBalancer:
    """`route` are the servers of the next connections, in order; all later ones use the last."""

    def __init__(self, route: Iterable[str]) -> None:
        self.route = list(route)
        self.connections = 0
        """The number of accepted connections."""
        self.port = 0
        self._tasks: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def listen(self) -> asyncio.Server:
        """Take connections."""
        server = await asyncio.start_server(self._accept, _HOST, 0)
        self.port = int(server.sockets[0].getsockname()[1])
        return server

    async def close(self) -> None:
        """End every connection."""
        tasks = dict(self._tasks)
        for task, writer in tasks.items():
            task.cancel()
            writer.transport.abort()  # also for a task that never began
        await asyncio.gather(*tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        where = self.route.pop(0) if len(self.route) > 1 else self.route[0]
        task = asyncio.get_running_loop().create_task(self._carry(where, reader, writer))
        self._tasks[task] = writer
        task.add_done_callback(self._tasks.pop)

    async def _carry(self, where: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, _, port = where.rpartition(":")
        try:
            far_reader, far_writer = await asyncio.open_connection(host, int(port))
            try:
                await asyncio.gather(_pump(reader, far_writer), _pump(far_reader, writer))
            finally:
                far_writer.transport.abort()
        except OSError:
            pass  # one end is closed, so is the other
        finally:
            writer.transport.abort()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(_READ_BYTES):
        writer.write(data)
        await writer.drain()
    writer.write_eof()


@contextlib.asynccontextmanager
async def load_balancer(*route: str) -> AsyncIterator[LoadBalancer]:
    """A load balancer that is closed at the end."""
    made = LoadBalancer(route)
    server = await made.listen()
    try:
        yield made
    finally:
        await close_server(server)
        await made.close()

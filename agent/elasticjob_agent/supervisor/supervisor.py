"""Start and end of process trees: the agent's side, one per event loop.

It owns the children of one fork server (forkserver/server.py) and decides when they are signalled and killed; the fork
server does it. Every wait is bounded. It does not poll, starts no thread, and signals only the trees of its own
children.

When the fork server dies, the kernel kills the workers with it (parent-death signal). Every `exit` resolves at once as
killed. The supervisor kills what is left in their sessions, and the next spawn starts a new fork server. Only PID 1 can
then still reach processes that those workers had moved to sessions of their own.
"""

import asyncio
import itertools
import signal
import time
from collections.abc import Hashable, Sequence

from elasticjob_agent.supervisor import forkserver_protocol
from elasticjob_agent.supervisor.child import Child
from elasticjob_agent.supervisor.errors import ForkServerLost, SupervisorError
from elasticjob_agent.supervisor.forkserver_client import ForkServerClient
from elasticjob_agent.supervisor.launchers import ExecLauncher, Launcher
from elasticjob_agent.supervisor.process_types import Command, Exit
from elasticjob_agent.supervisor.sessions import kill_sessions
from elasticjob_agent.supervisor.stream_pump import MAX_DRAIN_S, QUIET_S
from elasticjob_agent.supervisor.worker_streams import open_streams

_CLOSED = "this supervisor is closed and can start nothing any more"


class Supervisor:
    """Starts, watches and ends workers; see `create`."""

    def __init__(self, *, reap_s: float, launcher: Launcher) -> None:
        self._client: ForkServerClient
        self._launcher = launcher
        self._reap_s = reap_s
        self._numbers = itertools.count(1)
        self._children: dict[int, Child] = {}
        self._requests: dict[int, asyncio.Future[None]] = {}
        self._starting = asyncio.Lock()
        self._nested: dict[Hashable, Supervisor] = {}
        self._closed = False

    @classmethod
    async def create(cls, *, reap_s: float = 5.0, launcher: Launcher | None = None) -> "Supervisor":
        """Start the fork server and return when it accepts commands.

        Args:
            reap_s: seconds after SIGKILL until a process that still lives counts as wedged.
            launcher: how the fork server is started; by default it is exec'ed.

        Raises:
            ForkServerLost: the fork server does not start.
        """
        self = cls(reap_s=reap_s, launcher=launcher or ExecLauncher())
        self._client = await self._start_client()
        return self

    @classmethod
    def begin(cls, *, reap_s: float = 5.0) -> "Supervisor":
        """Do the same as `create`, inside a running loop, but let the first `spawn` wait for the fork server.

        Call it early: it forks this process, which is fastest while the process is small.
        """
        self = cls(reap_s=reap_s, launcher=ExecLauncher())
        self._client = ForkServerClient(self._launcher, self._on_event, self._on_end)
        return self

    @property
    def server_pid(self) -> int:
        """Return the pid of the parent of all workers."""
        return self._client.pid

    async def nested(self, key: Hashable, launcher: Launcher) -> "Supervisor":
        """Return the supervisor of another fork server, created at the first call with this key, closed with this."""
        async with self._starting:
            if self._closed:
                raise SupervisorError(_CLOSED)
            if key not in self._nested:
                self._nested[key] = await Supervisor.create(reap_s=self._reap_s, launcher=launcher)
            return self._nested[key]

    # --- starting ----------------------------------------------------------------------------------------------

    async def spawn(self, commands: Sequence[Command]) -> list[Child]:
        """Start all of these; return once each has been exec'ed.

        Raises:
            StartError: one cannot be started; then none of them is left running. See errors.py.
        """
        client = await self._live_client()
        begun: list[Child] = []
        try:
            await self._begin_all(client, commands, begun)
        except BaseException:
            # Shielded, so that a second cancellation cannot leave half a batch running.
            await asyncio.shield(self._kill(begun))
            raise
        return begun

    async def _begin_all(self, client: ForkServerClient, commands: Sequence[Command], begun: list[Child]) -> None:
        for command in commands:
            begun.append(await self._begin(client, command))  # noqa: PERF401 - the caller needs those begun before an error
        # Collect all answers first: only then is it known which workers to stop.
        errors = [error for child in begun if (error := await child.start)]
        if errors:
            raise errors[0]

    async def _begin(self, client: ForkServerClient, command: Command) -> Child:
        """Request one worker; its `start` resolves when the fork server has answered."""
        with open_streams(command) as streams:
            child = Child(command, number=next(self._numbers), pumps=streams.pumps)
            self._children[child.number] = child
            try:
                await client.send(
                    forkserver_protocol.encode_message("spawn", child.number, len(streams.fds)), streams.fds
                )
            except BaseException:
                self._children.pop(child.number, None)  # the end of the fork server may have cleared them all
                raise
        return child

    async def _live_client(self) -> ForkServerClient:
        async with self._starting:
            if self._closed:
                raise SupervisorError(_CLOSED)
            if self._client.lost:
                self._client = await self._start_client()
            await self._client.wait_ready()
            return self._client

    async def _start_client(self) -> ForkServerClient:
        client = ForkServerClient(self._launcher, self._on_event, self._on_end)
        try:
            await client.wait_ready()
        except BaseException:
            await client.close()
            raise
        return client

    # --- ending ------------------------------------------------------------------------------------------------

    async def stop(
        self,
        children: Sequence[Child],
        *,
        sig: signal.Signals = signal.SIGTERM,
        grace_s: float,
        reap_s: float | None = None,
    ) -> None:
        """End these workers and everything they started; return when all is gone, or known to be wedged.

        All process groups get `sig` at once, also those whose leader is dead. When all these groups are empty, or after
        `grace_s`, the rest of the trees gets SIGKILL, also processes that have left their group or session. A second
        call while the first runs ends it sooner if its grace ends sooner. A group gets each signal once.

        Args:
            children: of this supervisor, dead or alive.
            sig: the signal that asks them to end.
            grace_s: seconds that all of them share; 0 kills at once.
            reap_s: as in `create`, for this call.
        """
        if grace_s > 0:
            await self._ask("signal", sig, children=children, within_s=grace_s)
        await self._kill(children, reap_s=reap_s)

    async def sweep(self, children: Sequence[Child]) -> None:
        """Kill what is left of these workers' trees; for workers that have ended by themselves.

        The owner of an orphan in a session of its own is unknown while other workers live; it is killed with the last.
        """
        await self._kill(children)

    async def close(self) -> None:
        """Kill all workers and their trees and end the fork server. Bounded; may be called again."""
        self._closed = True
        async with self._starting:
            await asyncio.gather(*(dependent.close() for dependent in self._nested.values()))
            await self._kill(list(self._children.values()))
            await self._client.close()

    async def _kill(self, children: Sequence[Child], *, reap_s: float | None = None) -> None:
        within_s = self._reap_s if reap_s is None else reap_s
        all_ended = await self._ask("kill", children=children, within_s=within_s)
        stuck = [] if all_ended else [child for child in children if not child.ended] or children
        for child in children:
            child.wedged = child in stuck
            if all_ended:
                self._children.pop(child.number, None)
        if drains := [child.drained for child in children if child.ended]:
            await asyncio.wait(drains, timeout=MAX_DRAIN_S + QUIET_S)

    async def _ask(self, kind: str, *numbers: int, children: Sequence[Child], within_s: float) -> bool:
        """Send a request about these workers; return whether it was answered in time."""
        if not children or self._client.lost:
            return True
        request = next(self._numbers)
        answered = self._requests[request] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(within_s):
                await self._client.send(
                    forkserver_protocol.encode_message(kind, request, *numbers, of=[child.number for child in children])
                )
                await answered
        except TimeoutError:
            # A loop that was late finds the answer and the timeout in the same turn.
            return answered.done() and not answered.cancelled()
        except ForkServerLost:  # its end has ended them all
            return True
        finally:
            del self._requests[request]
        return True

    # --- events of the fork server -----------------------------------------------------------------------------

    def _on_event(self, event: forkserver_protocol.Event) -> None:
        match event:
            case forkserver_protocol.Started(number, pid, wall_ns):
                self._children[number].started(pid, wall_ns)
            case forkserver_protocol.Failed(number):
                child = self._children.pop(number)
                child.failed(forkserver_protocol.start_error(child.command, event))
            case forkserver_protocol.Exited(number, exit_):
                self._children[number].exited(exit_)
            case forkserver_protocol.Done(request) if request in self._requests:
                _resolve(self._requests[request])

    def _on_end(self) -> None:
        """Record that the fork server has ended and the kernel has killed its children."""
        end = Exit(
            code=-signal.SIGKILL,
            at_s=time.monotonic(),
            wall_ns=time.time_ns(),
            stopped_by_us=self._closed,
            note="its fork server has ended",
        )
        kill_sessions({child.pid for child in self._children.values() if child.pid and not child.ended})
        for child in self._children.values():
            if child.start.done():
                child.exited(end)
            else:
                child.failed(ForkServerLost(f"{child.name}: not started: the fork server has died"))
        self._children.clear()
        for answered in self._requests.values():
            _resolve(answered)


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)

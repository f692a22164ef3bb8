"""Start and end of process trees: the agent's side, one per event loop.

It owns the children of one fork server (forkserver/server.py) and decides when they are signalled and killed; the fork
server does it. Every wait is bounded. It does not poll, starts no thread, and signals only the trees of its own
children.

When the fork server dies, the kernel kills the workers with it (parent-death signal). Every `exit` resolves at once as
killed. The supervisor kills what is left in their sessions, and the next spawn starts a new fork server. Only PID 1 can
then still reach processes that those workers had moved to sessions of their own.
"""

import asyncio
import contextlib
import itertools
import os
import signal
import socket
from collections.abc import Awaitable, Callable, Hashable, Sequence

from elasticjob_agent.supervisor import forkserver_protocol
from elasticjob_agent.supervisor.child import Child
from elasticjob_agent.supervisor.end_watch import watch_end
from elasticjob_agent.supervisor.errors import ForkServerLost, PreforkedWorkerLost, SupervisorError
from elasticjob_agent.supervisor.forkserver_client import ForkServerClient
from elasticjob_agent.supervisor.hanging_fork_server import ANSWER_S, end_hanging, wait_for_all, wait_for_starts
from elasticjob_agent.supervisor.launchers import ExecLauncher, Launcher
from elasticjob_agent.supervisor.preforked import PreforkedWorker, is_lost, open_link
from elasticjob_agent.supervisor.process_types import Command
from elasticjob_agent.supervisor.stream_pump import MAX_DRAIN_S, QUIET_S
from elasticjob_agent.supervisor.worker_end import record_end_with_fork_server
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
        self._preforked: dict[int, PreforkedWorker] = {}
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

    async def spawn(
        self,
        commands: Sequence[Command],
        preforked: Sequence[PreforkedWorker | None] = (),
        *,
        change_replaced: Callable[[Command], Command] = lambda command: command,
        after_first: Callable[[], Awaitable[None]] | None = None,
    ) -> list[Child]:
        """Start all of these; return once each runs its command.

        Args:
            commands: one for each worker.
            preforked: for each command, the worker forked ahead that becomes it. None, or no entry: it is exec'ed. A
                worker that has ended or hangs is replaced by one that is exec'ed.
            change_replaced: returns the command of such a replacement.
            after_first: is awaited between the first start and the others.

        Raises:
            StartError: one cannot be started; then none of them is left running. See errors.py.
        """
        client = await self._answering_client()
        begun: list[Child] = []
        try:
            await self._fork_all(client, begun, commands, preforked, change_replaced)
            others = [child for child in self._children.values() if child not in begun]
            if await end_hanging(client, others, within_s=self._launcher.batch_s):
                client = await self._live_client()
                begun.clear()
                await self._fork_all(client, begun, commands, preforked, change_replaced)
            for place, child in enumerate(begun):
                if after_first is not None and place == 1:
                    await after_first()
                child.begin()
            await self._replace_lost(client, begun, preforked, change_replaced)
            await wait_for_all(client, begun, others=others, launcher=self._launcher)
        except BaseException:
            # Shielded: a second cancellation may not leave half a batch running.
            await asyncio.shield(self._kill(begun))
            raise
        return begun

    async def _fork_all(
        self,
        client: ForkServerClient,
        begun: list[Child],
        commands: Sequence[Command],
        preforked: Sequence[PreforkedWorker | None],
        change: Callable[[Command], Command],
    ) -> None:
        """Request all workers, and append them to `begun`; each waits at its latch."""
        for command, worker in itertools.zip_longest(commands, preforked):
            is_gone = worker is not None and not worker.is_alive
            begun.append(await self._fork(client, change(command) if is_gone else command, worker))

    async def _fork(self, client: ForkServerClient, command: Command, worker: PreforkedWorker | None) -> Child:
        """Request one worker; its `start` resolves when the fork server has answered."""
        if worker is None or not worker.is_alive:
            return await self._request("spawn", client, command, next(self._numbers))
        worker.used()
        try:
            child = await self._request("use", client, command, worker.number)
        except BaseException:  # it still waits, and its number is in no batch that could be killed
            await asyncio.shield(self._ask("kill", numbers=[worker.number], within_s=self._reap_s))
            raise
        child.is_warm = True
        return child

    async def _replace_lost(
        self,
        client: ForkServerClient,
        begun: list[Child],
        preforked: Sequence[PreforkedWorker | None],
        change: Callable[[Command], Command],
    ) -> None:
        """Wait until the preforked workers have answered, and start cold what they have not become."""
        used = [(place, worker) for place, worker in enumerate(preforked) if worker and begun[place].is_warm]
        if not used:
            return
        late = await wait_for_starts(client, {begun[place]: worker.pid for place, worker in used}, hang_s=ANSWER_S)
        for place, worker in used:
            if begun[place] in late:
                worker.delayed(is_busy=late[begun[place]].is_busy)
        await self._kill(list(late))
        for place, worker in used:
            if is_lost(begun[place], worker):
                begun[place] = await self._fork(client, change(begun[place].command), None)
                begun[place].begin()

    async def _request(self, kind: str, client: ForkServerClient, command: Command, number: int) -> Child:
        with open_streams(command) as streams:
            child = Child(command, number=number, pumps=streams.pumps, latch=streams.latch)
            self._children[number] = child
            try:
                await client.send(forkserver_protocol.encode_message(kind, number, len(streams.fds)), streams.fds)
            except BaseException:
                self._children.pop(number, None)  # the end of the fork server may have cleared them all
                raise
        return child

    # --- workers forked ahead ----------------------------------------------------------------------------------

    async def start_zygote(self, command: Command) -> Child:
        """Start a process that no round ends, and that forks workers; see user_python/warm_start.

        Raises:
            StartError: it cannot be started.
        """
        client = await self._answering_client()
        child = await self._request("zygote", client, command, next(self._numbers))
        child.is_zygote = True
        child.begin()
        if error := await child.start:
            raise error
        return child

    async def adopt(self, count: int, send: Callable[[Sequence[socket.socket]], None]) -> list[PreforkedWorker]:
        """Have a zygote fork so many workers, and the fork server take them over.

        Args:
            count: of the workers.
            send: passes the workers' ends of their sockets on to the zygote.

        Raises:
            ForkServerLost: the fork server has ended.
        """
        client = await self._live_client()
        workers = [PreforkedWorker(next(self._numbers)) for _ in range(count)]
        self._preforked.update((worker.number, worker) for worker in workers)
        try:
            with contextlib.ExitStack() as stack:
                ends = []
                for worker in workers:
                    ours, theirs = map(stack.enter_context, open_link())
                    await client.send(forkserver_protocol.encode_message("adopt", worker.number, 1), [ours.fileno()])
                    ours.close()
                    ends.append(theirs)
                send(ends)
        except BaseException:
            for worker in workers:
                self._preforked.pop(worker.number, None)
            raise
        return workers

    async def discard(self, workers: Sequence[PreforkedWorker]) -> None:
        """Kill these workers, which have not got a command."""
        waiting = [worker for worker in workers if worker.is_alive]
        for worker in waiting:
            worker.lost("it was discarded")
        await self._ask("kill", numbers=[worker.number for worker in waiting], within_s=self._reap_s)

    async def _live_client(self) -> ForkServerClient:
        async with self._starting:
            if self._closed:
                raise SupervisorError(_CLOSED)
            if self._client.lost:
                self._client = await self._start_client()
            await self._client.wait_ready()
            return self._client

    async def _answering_client(self) -> ForkServerClient:
        """Return the client of a fork server that answers; one that hangs is killed if it has no workers that run."""
        client = await self._live_client()
        await end_hanging(client, self._children.values(), within_s=ANSWER_S)
        return await self._live_client()

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
        call while the first runs ends it sooner if its grace ends sooner. A group gets each signal once. A fork server
        that hangs is killed, and the workers with it.

        Args:
            children: of this supervisor, dead or alive.
            sig: the signal that asks them to end.
            grace_s: seconds that all of them share; 0 kills at once.
            reap_s: as in `create`, for this call.
        """
        for child in children:
            child.is_stopping = True
        if grace_s > 0:
            numbers = [child.number for child in children]
            await self._ask("signal", sig, numbers=numbers, within_s=grace_s)
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
            await self.discard(list(self._preforked.values()))
            await self._kill(list(self._children.values()))
            await self._client.close()

    async def _kill(self, children: Sequence[Child], *, reap_s: float | None = None) -> None:
        within_s = self._reap_s if reap_s is None else reap_s
        all_ended = await self._ask("kill", numbers=[child.number for child in children], within_s=within_s)
        stuck = [] if all_ended else [child for child in children if not child.ended] or children
        for child in children:
            child.wedged = child in stuck
            if all_ended:
                self._children.pop(child.number, None)
        if drains := [child.drained for child in children if child.ended]:
            await asyncio.wait(drains, timeout=MAX_DRAIN_S + QUIET_S)

    async def _ask(self, kind: str, *parameters: int, numbers: Sequence[int], within_s: float) -> bool:
        """Send a request about the workers with these numbers; return whether it was answered in time."""
        if not numbers or self._client.lost:
            return True
        request = next(self._numbers)
        answered = self._requests[request] = asyncio.get_running_loop().create_future()
        asking = asyncio.create_task(self._end_hanging(besides=numbers))
        try:
            async with asyncio.timeout(within_s):
                await self._client.send(forkserver_protocol.encode_message(kind, request, *parameters, of=numbers))
                await answered
        except TimeoutError:
            # A loop that was late finds the answer and the timeout in the same turn.
            return answered.done() and not answered.cancelled()
        except ForkServerLost:  # its end has ended them all
            return True
        finally:
            asking.cancel()
            del self._requests[request]
        return True

    async def _end_hanging(self, *, besides: Sequence[int]) -> None:
        """Kill a fork server that hangs, unless a worker runs that has none of these numbers."""
        others = [child for child in self._children.values() if child.number not in besides]
        await end_hanging(self._client, others, within_s=self._launcher.batch_s)

    # --- events of the fork server -----------------------------------------------------------------------------

    def _on_event(self, event: forkserver_protocol.Event) -> None:
        match event:
            case forkserver_protocol.Started(number, pid, wall_ns):
                self._preforked.pop(number, None)
                begun = self._children[number]
                begun.started(pid, wall_ns)
                watch_end(self._client, begun, self._children.values, hang_s=self._launcher.batch_s)
            case forkserver_protocol.Preforked(number, pid) if number in self._preforked:
                self._preforked[number].arrived(pid)
            case forkserver_protocol.Failed(number, code):
                if worker := self._preforked.pop(number, None):
                    worker.lost(os.strerror(code))
                if child := self._children.pop(number, None):
                    child.failed(forkserver_protocol.start_error(child.command, event))
            case forkserver_protocol.Lost(number, reason):
                self._on_lost(number, reason)
            case forkserver_protocol.Exited(number, exit_):
                self._children[number].exited(exit_)
            case forkserver_protocol.Done(request) if request in self._requests:
                _resolve(self._requests[request])

    def _on_lost(self, number: int, reason: str) -> None:
        if worker := self._preforked.pop(number, None):
            was_waiting = worker.is_alive
            worker.lost(reason)
            if was_waiting:
                worker.on_killed()
        if child := self._children.pop(number, None):
            child.failed(PreforkedWorkerLost(f"{child.name}: the worker that was forked ahead is lost: {reason}"))

    def _on_end(self, ending: str) -> None:
        """Record how the fork server has ended, and that the kernel has killed its children."""
        record_end_with_fork_server(list(self._children.values()), ending, is_closed=self._closed)
        self._children.clear()
        for worker in self._preforked.values():
            worker.lost(f"its fork server {ending}", with_server=True)
        self._preforked.clear()
        for answered in self._requests.values():
            _resolve(answered)


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)

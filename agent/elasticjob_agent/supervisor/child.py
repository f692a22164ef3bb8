"""One worker as its owner sees it: name, times, and futures for its exit and the end of its output.

`exit` resolves when the worker is reaped, so that a failure is handled without delay. `drained` resolves when the last
byte that it wrote has reached its file and its console. Only the supervisor resolves them. Both are resolved by the end
of `Supervisor.close`.
"""

import asyncio
from typing import TypeVar

from elasticjob_agent.supervisor.errors import StartError
from elasticjob_agent.supervisor.latch import Latch
from elasticjob_agent.supervisor.process_types import Command, Exit
from elasticjob_agent.supervisor.stream_pump import LinePump

T = TypeVar("T")


class Child:
    """A started worker, which leads a session and a process group of its own."""

    def __init__(self, command: Command, *, number: int, pumps: list[LinePump], latch: Latch | None = None) -> None:
        loop = asyncio.get_running_loop()
        self.name = command.name
        self.pid = 0
        self.started_at_ns = 0
        """Wall clock at its fork, in nanoseconds."""
        self.exit: asyncio.Future[Exit] = loop.create_future()
        self.drained: asyncio.Future[None] = loop.create_future()
        self.ended = False
        """Whether it is dead. Unlike `exit.done()`, this stays correct if another task cancels that future."""
        self.wedged = False
        """Whether it, or a process that it started, has survived SIGKILL: it hangs in the kernel (D state)."""
        self.is_stopping = False
        """Whether a stop or sweep has asked for its end."""
        self.unreported_code = 0
        """The code of a failure that the fork server has not reported."""
        self.is_zygote = False
        """Whether it runs no script, and may be killed between two rounds."""
        self.is_warm = False
        """Whether a zygote forked it, instead of an exec."""
        self.command = command
        self.number = number
        """A number that a supervisor never uses again, unlike a pid."""
        self.start: asyncio.Future[StartError | None] = loop.create_future()
        """Resolves when its exec succeeded or failed; owned by `spawn`."""
        self._pumps = pumps
        self._latch = latch

    @property
    def group(self) -> int:
        """Return the id of its process group, which is also the id of its session."""
        return self.pid

    def begin(self) -> None:
        """Let it run its command, at which it waits since its fork."""
        if self._latch:
            self._latch.open()

    def started(self, pid: int, wall_ns: int) -> None:
        """Record that its exec succeeded."""
        self.pid, self.started_at_ns = pid, wall_ns
        _resolve(self.start, None)

    def failed(self, error: StartError) -> None:
        """Record that it never ran."""
        _resolve(self.start, error)
        self._drain()

    def exited(self, exit_: Exit) -> None:
        """Record that it was reaped, or is known to be dead; its output is still being read."""
        if not self.ended:
            self.ended = True
            _resolve(self.exit, exit_)
            self._drain()

    def _drain(self) -> None:
        if self._latch:
            self._latch.close()
        for pump in self._pumps:
            pump.done.add_done_callback(self._notice_drained)
            pump.leader_ended()
        self._notice_drained()

    def _notice_drained(self, _: object = None) -> None:
        if all(pump.done.done() for pump in self._pumps):
            _resolve(self.drained, None)


def _resolve(future: asyncio.Future[T], value: T) -> None:
    # It may be done already: `wait_for` of a caller cancels the future at its timeout.
    if not future.done():
        future.set_result(value)

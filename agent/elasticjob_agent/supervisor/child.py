"""One worker as its owner sees it: names, times, and the two moments at its end.

`exit` resolves the moment the worker is reaped, so that a failure is acted upon without delay; `drained` when the
last byte it wrote has reached its file and its console. Only the supervisor resolves them, and each always is by
the end of `Supervisor.close`.
"""

import asyncio
from typing import TypeVar

from elasticjob_agent.supervisor.errors import StartError
from elasticjob_agent.supervisor.process_types import Command, Exit
from elasticjob_agent.supervisor.stream_pump import LinePump

T = TypeVar("T")


class Child:
    """A started worker, leader of a session and process group of its own."""

    def __init__(self, command: Command, *, number: int, pumps: list[LinePump]) -> None:
        loop = asyncio.get_running_loop()
        self.name = command.name
        self.pid = 0
        self.started_at_ns = 0
        """Wall clock, when it was forked."""
        self.exit: asyncio.Future[Exit] = loop.create_future()
        self.drained: asyncio.Future[None] = loop.create_future()
        self.ended = False
        """It is dead: as `exit.done()`, but true also if somebody cancelled that future."""
        self.wedged = False
        """It, or something it started, outlived SIGKILL: it hangs in the kernel (D state)."""
        self.command = command
        self.number = number
        """Never used again in a supervisor's life, unlike a pid."""
        self.start: asyncio.Future[StartError | None] = loop.create_future()
        """Resolves when its exec succeeded or failed; owned by `spawn`."""
        self._pumps = pumps

    @property
    def group(self) -> int:
        """The id of its process group and of its session."""
        return self.pid

    def started(self, pid: int, wall_ns: int) -> None:
        """Its exec succeeded."""
        self.pid, self.started_at_ns = pid, wall_ns
        _resolve(self.start, None)

    def failed(self, error: StartError) -> None:
        """It never ran."""
        _resolve(self.start, error)
        self._drain()

    def exited(self, exit_: Exit) -> None:
        """It was reaped, or is known to be dead; what it wrote is still being read."""
        if not self.ended:
            self.ended = True
            _resolve(self.exit, exit_)
            self._drain()

    def _drain(self) -> None:
        for pump in self._pumps:
            pump.done.add_done_callback(self._notice_drained)
            pump.leader_ended()
        self._notice_drained()

    def _notice_drained(self, _: object = None) -> None:
        if all(pump.done.done() for pump in self._pumps):
            _resolve(self.drained, None)


def _resolve(future: asyncio.Future[T], value: T) -> None:
    # It may be done already: a caller's wait_for cancels the future itself when its time is over.
    if not future.done():
        future.set_result(value)

"""A worker that a zygote has forked ahead, as the agent sees it."""

import asyncio
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from elasticjob_agent.supervisor.child import Child
from elasticjob_agent.supervisor.errors import PreforkedWorkerLost, StartError

START_S = 1.5
"""Seconds for preforked workers to take their commands; one that is later is killed, and its command is started cold.

The time in which a worker waits for a processor does not count.
"""


@dataclass(slots=True)
class PreforkedWorker:
    """One forked process that waits for a command."""

    number: int
    """The number of the child that it becomes."""
    registered: "asyncio.Future[bool]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    """Resolves to True when the fork server knows its pid, and to False if it ended before."""
    pid: int = 0
    is_alive: bool = True
    """Whether it can still take a command."""
    loss: str = ""
    """Why it has not become a command, or cannot; empty if there is no reason."""
    has_lost_server: bool = False
    """Whether the reason is the end of its fork server."""
    is_hanging: bool = False
    """Whether it did not take its command although it could."""
    is_late: bool = False
    """Whether it is killed because it did not take its command in time."""
    on_killed: Callable[[], None] = lambda: None
    """Called when it has ended while it waited, and the agent has not ended it."""

    def arrived(self, pid: int) -> None:
        """Record that it waits."""
        self.pid = pid
        if not self.registered.done():
            self.registered.set_result(True)

    def used(self) -> None:
        """Record that it gets its command."""
        self.is_alive = False

    def delayed(self, *, is_busy: bool) -> None:
        """Record that it has not taken its command in time; `is_busy`: because it waited for a processor or a disk."""
        self.is_late, self.is_hanging = True, not is_busy
        self.lost("it was late, because the machine is busy" if is_busy else "it hung")

    def lost(self, reason: str, *, with_server: bool = False) -> None:
        """Record that it cannot take a command any more, for this reason."""
        self.is_alive = False
        if not self.loss:
            self.loss, self.has_lost_server = reason, with_server
        if not self.registered.done():
            self.registered.set_result(False)


def describe_loss(worker: PreforkedWorker) -> str:
    """Return why this worker cannot become a command, as a sentence that names it."""
    return worker.loss if worker.has_lost_server else f"a worker that was forked ahead: {worker.loss}"


def describe_losses(names: Sequence[str], workers: Sequence[PreforkedWorker]) -> str:
    """Return why some commands of these names were started cold, although these workers were to become them."""
    lost = [(name, worker.loss) for name, worker in zip(names, workers, strict=False) if worker.loss]
    if len(lost) == len(names) and len({loss for _, loss in lost}) == 1:
        return lost[0][1]
    return "; ".join(f"the worker for {name}: {loss}" for name, loss in lost)


def is_lost(child: Child, worker: PreforkedWorker) -> bool:
    """Return whether this worker, which has answered or was killed, runs nothing of its command.

    Raises:
        StartError: it hangs in the kernel, or began its command as it was killed. A second start could run it twice.
    """
    if not child.start.done():
        raise StartError(f"{child.name}: the worker that was forked ahead hangs, and cannot be killed")
    error = child.start.result()
    if worker.is_late and error is None:
        raise StartError(f"{child.name}: it was killed, because it took longer than {START_S} s to start")
    return isinstance(error, PreforkedWorkerLost)


def open_link() -> tuple[socket.socket, socket.socket]:
    """Return the two ends of a worker's socket: for the fork server, which learns the sender's pid, and the worker."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    return ours, theirs

"""What /proc says about the processes below one, and how to kill exactly one of them.

The children of the starter itself are listed exactly: only the starter can take one off that list. What is deeper
may change while it is read, so a caller looks again until nothing is left. A pid read here is only good for a signal
if it is the starter's own unreaped child, or goes through `kill`, which checks that it is still the same process.
"""

import os
import signal
from contextlib import suppress


class Process:
    """One process as /proc shows it. A plain class: `typing` would be a third of the starter's start."""

    __slots__ = ("dead", "group", "parent", "pid", "session", "started")

    def __init__(self, pid: int, *, parent: int, group: int, session: int, started: int, dead: bool) -> None:
        self.pid = pid
        self.parent = parent
        self.group = group
        self.session = session
        self.started = started
        """Clock ticks since boot: with the pid it names one process for ever."""
        self.dead = dead
        """A zombie: it only waits for its parent."""


def read(pid: int) -> "Process | None":
    """What /proc says about this process; None if there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - the starter does without pathlib: its start counts
            stat = file.read()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat[stat.rindex(b")") + 2 :].split()  # the name before it may contain anything, also ")"
    parent, group, session = map(int, fields[1:4])
    started, dead = int(fields[19]), fields[0] in b"ZX"
    return Process(pid, parent=parent, group=group, session=session, started=started, dead=dead)


def children(pid: int) -> "list[int]":
    """The pids of its children, zombies included."""
    try:
        tasks = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208 - as above
        return [child for task in tasks for child in _children_of_task(pid, task)]
    except (FileNotFoundError, ProcessLookupError):
        return []


def _children_of_task(pid: int, task: str) -> "list[int]":
    with open(f"/proc/{pid}/task/{task}/children", "rb") as file:  # noqa: PTH123 - as above
        return [int(word) for word in file.read().split()]


def _children_by_scan(pid: int) -> "list[int]":
    """The same for a kernel that was built without CONFIG_PROC_CHILDREN."""
    processes = (read(int(name)) for name in os.listdir("/proc") if name.isdigit())  # noqa: PTH208 - as above
    return [process.pid for process in processes if process and process.parent == pid]


if not os.path.exists(f"/proc/self/task/{os.getpid()}/children"):  # noqa: PTH110 - as above
    children = _children_by_scan


def descendants(pid: int) -> "list[Process]":
    """Everything below this process, as far as it holds still."""
    found: list[Process] = []
    unseen = children(pid)
    while unseen:
        process = read(unseen.pop())
        if process:
            found.append(process)
            unseen += children(process.pid)
    return found


def kill(process: Process) -> None:
    """SIGKILL this process, and never one that has got its pid since."""
    # The order is what makes it safe: the handle stays with whatever it was opened on, and only then is that
    # compared with what was meant.
    with suppress(ProcessLookupError, PermissionError):
        if not hasattr(os, "pidfd_open"):  # Python 3.8 has no such handles: the check comes first then, just before
            _kill_if_same(process)
            return
        handle = os.pidfd_open(process.pid)
        try:
            now = read(process.pid)
            if now and now.started == process.started:
                signal.pidfd_send_signal(handle, signal.SIGKILL)
        finally:
            os.close(handle)


def _kill_if_same(process: Process) -> None:
    now = read(process.pid)
    if now and now.started == process.started:
        os.kill(process.pid, signal.SIGKILL)

"""Processes below one, read from /proc, and a way to kill exactly one of them.

The list of the fork server's own children is exact: only the fork server can take one off it. Deeper levels may change
while they are read, so a caller repeats until nothing is left.

A pid read here may be signalled in two cases only. It is an unreaped child of the fork server, or `kill` checks that it
is still the same process.
"""

import os
import signal
from contextlib import suppress


class Process:
    """One process as /proc shows it.

    Not a dataclass, because `typing` would take a third of the fork server's start-up time.
    """

    __slots__ = ("dead", "group", "parent", "pid", "session", "started")

    def __init__(self, pid: int, *, parent: int, group: int, session: int, started: int, dead: bool) -> None:
        self.pid = pid
        self.parent = parent
        self.group = group
        self.session = session
        self.started = started
        """Clock ticks since boot. Together with the pid, it identifies one process for ever."""
        self.dead = dead
        """Whether it is a zombie, which its parent has not reaped yet."""


def read(pid: int) -> "Process | None":
    """Return this process as /proc shows it, or None if there is none, or another user's is hidden (hidepid)."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - pathlib would slow down the start
            stat = file.read()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    fields = stat[stat.rindex(b")") + 2 :].split()  # the name before it may contain anything, also ")"
    parent, group, session = map(int, fields[1:4])
    started, dead = int(fields[19]), fields[0] in b"ZX"
    return Process(pid, parent=parent, group=group, session=session, started=started, dead=dead)


def children(pid: int) -> "list[int]":
    """Return the pids of its children, zombies included."""
    try:
        tasks = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208 - as above
        return [child for task in tasks for child in _children_of_task(pid, task)]
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return []


def _children_of_task(pid: int, task: str) -> "list[int]":
    with open(f"/proc/{pid}/task/{task}/children", "rb") as file:  # noqa: PTH123 - as above
        return [int(word) for word in file.read().split()]


def _children_by_scan(pid: int) -> "list[int]":
    """Return the same on a kernel that was built without CONFIG_PROC_CHILDREN."""
    processes = (read(int(name)) for name in os.listdir("/proc") if name.isdigit())  # noqa: PTH208 - as above
    return [process.pid for process in processes if process and process.parent == pid]


if not os.path.exists(f"/proc/self/task/{os.getpid()}/children"):  # noqa: PTH110 - as above
    children = _children_by_scan


def descendants(pid: int) -> "list[Process]":
    """Return the processes below this one; the list may miss some while processes start and end."""
    found: list[Process] = []
    unseen = children(pid)
    while unseen:
        process = read(unseen.pop())
        if process:
            found.append(process)
            unseen += children(process.pid)
    return found


def _has_handles() -> bool:
    """Return whether Python (from 3.9 on), the kernel and a sandbox around us have handles of processes."""
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError):
        return False
    return True


_HAS_HANDLES = _has_handles()


def kill(process: Process) -> None:
    """Send SIGKILL to this process, but never to another one that has its pid now."""
    # The order makes it safe. The handle belongs to one process from its opening on; the comparison comes afterwards.
    with suppress(ProcessLookupError, PermissionError):
        if not _HAS_HANDLES:  # there, compare just before the kill
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

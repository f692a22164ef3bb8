"""The end of a worker as the kernel shows it, for workers whose fork server does not report it.

A fork server that hangs reaps nothing. So a worker that has ended keeps its pid, and the kernel still shows its code.
"""

import asyncio
import logging
import os
import signal
import time
from collections.abc import Collection
from pathlib import Path

from elasticjob_agent.supervisor import fd_registry
from elasticjob_agent.supervisor.child import Child
from elasticjob_agent.supervisor.errors import ForkServerLost
from elasticjob_agent.supervisor.process_types import Exit
from elasticjob_agent.supervisor.sessions import kill_sessions

log = logging.getLogger(__name__)

_STATE, _EXIT_STATUS = 0, 49
"""The places of both fields behind the name in proc_pid_stat(5)."""


async def wait_for_end(pid: int) -> None:
    """Return when this process has ended, whether it was reaped or not.

    Raises:
        OSError: the kernel gives no handle of it.
    """
    loop, has_ended = asyncio.get_running_loop(), asyncio.Event()
    handle = fd_registry.register(os.pidfd_open(pid))
    loop.add_reader(handle, has_ended.set)
    try:
        await has_ended.wait()
    finally:
        loop.remove_reader(handle)
        fd_registry.close(handle)


def read_end(pid: int) -> int | None:
    """Return the code with which this process has ended; None if it runs or was reaped.

    The code is 0, too, if the kernel does not show it, because the worker has another user.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return os.waitstatus_to_exitcode(int(fields[_EXIT_STATUS])) if fields[_STATE] in "ZX" else None


def record_end_with_fork_server(children: Collection[Child], ending: str, *, is_closed: bool) -> None:
    """Record that the kernel has killed these workers with their fork server, and kill what is left of them.

    Args:
        children: of the fork server.
        ending: how it has ended: the end of a sentence.
        is_closed: whether the supervisor has ended it.
    """
    try:
        kill_sessions({child.pid for child in children if child.pid and not child.ended})
    except OSError as error:  # their ends are reported in any case
        log.warning("processes that the lost workers started may run on: %s", error)
    for child in children:
        if not child.start.done():
            child.failed(ForkServerLost(f"{child.name}: not started: the fork server {ending}"))
            continue
        end = Exit(
            code=child.unreported_code or -signal.SIGKILL,
            at_s=time.monotonic(),
            wall_ns=time.time_ns(),
            stopped_by_us=is_closed or (child.is_stopping and not child.unreported_code),
            note=f"its fork server {ending}",
        )
        child.exited(end)

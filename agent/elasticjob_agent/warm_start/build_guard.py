"""Watch over a zygote while it repeats the imports: its pace and its memory.

The zygote is stopped and continued by signals, in slices of a tenth of a second; build_pace.py decides about them. The
end of the watch continues it. The kernel kills it with its fork server, stopped or not.
"""

import asyncio
import logging
import os
import resource
import signal
from collections.abc import Callable, Coroutine
from typing import Any, Self, TypeVar

from elasticjob_agent.host.cpu import CpuMeter
from elasticjob_agent.host.memory import private_bytes
from elasticjob_agent.warm_start import memory_policy
from elasticjob_agent.warm_start.build_pace import MIN_SHARE, PERIOD_S, share_to_run

T = TypeVar("T")

log = logging.getLogger(__name__)


class MemoryLimitError(Exception):
    """The imports took more memory than they may, and their zygote was killed; the text is the reason."""


async def guarded(
    read_report: Callable[[], Coroutine[Any, Any, T]], pid: int, *, limit: int, has_pace: bool = True
) -> T:
    """Return the report of the zygote `pid`, which runs at its pace until then, or at full speed.

    Raises:
        MemoryLimitError: it has taken more than `limit` bytes.
    """
    reading = asyncio.create_task(read_report())
    watch = asyncio.create_task(_watch(pid, limit, has_pace=has_pace))
    try:
        await asyncio.wait({reading, watch}, return_when=asyncio.FIRST_COMPLETED)
        if watch.done():  # first, because `reading` may have noticed the kill that the watch explains
            watch.result()  # raises, or the zygote has ended, which `reading` notices
        return await reading
    finally:
        reading.cancel()
        watch.cancel()
        await asyncio.gather(reading, watch, return_exceptions=True)


async def _watch(pid: int, limit: int, *, has_pace: bool) -> None:
    """Return when the process has ended, or cannot be watched."""
    try:
        with PausableProcess(pid) as zygote:
            await _run_in_slices(zygote, limit, has_pace=has_pace)
    except (ProcessLookupError, FileNotFoundError):
        return
    except OSError as error:
        log.warning("warm start: the imports are repeated at full speed: %s", error)


async def _run_in_slices(zygote: "PausableProcess", limit: int, *, has_pace: bool) -> None:
    cpu = CpuMeter(zygote.pid)
    before, share = cpu.read(), MIN_SHARE if has_pace else 1.0
    while True:
        await asyncio.sleep(PERIOD_S * share)
        if share < 1:
            zygote.stop()
            await asyncio.sleep(PERIOD_S * (1 - share))
        if reason := memory_policy.refuse_size(private_bytes(zygote.pid, resource.getpagesize()), limit):
            zygote.kill()
            raise MemoryLimitError(reason)
        now = cpu.read()
        before, share = now, share_to_run(before, now, share) if has_pace else 1.0
        zygote.go_on()


class PausableProcess:
    """Stops and continues one process, never another that has got its pid."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._fd = os.pidfd_open(pid)
        self._is_stopped = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.go_on()
        finally:
            os.close(self._fd)

    def stop(self) -> None:
        """Raises ProcessLookupError if it has ended."""
        signal.pidfd_send_signal(self._fd, signal.SIGSTOP)
        self._is_stopped = True

    def kill(self) -> None:
        """Raises ProcessLookupError if it has ended."""
        signal.pidfd_send_signal(self._fd, signal.SIGKILL)
        self._is_stopped = False

    def go_on(self) -> None:
        """Raises ProcessLookupError if it has ended."""
        if self._is_stopped:
            signal.pidfd_send_signal(self._fd, signal.SIGCONT)
            self._is_stopped = False

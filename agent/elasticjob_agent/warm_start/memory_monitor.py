"""The memory of a node's zygote: whether one may be built, how much it takes, and when it must end.

A zygote and the workers that wait are the first to go. The agent ends them when memory is short. If the kernel is
faster, it kills them before the workers, by their `oom_score_adj`. The kill counter has then grown, and that is no
evidence about a worker.
"""

import asyncio
import logging
import signal
from collections.abc import Callable, Sequence

from elasticjob_agent.host.memory import MemoryMeter, MemoryUsage, is_first_to_go, share_of_process
from elasticjob_agent.host.oom import OomCounter
from elasticjob_agent.supervisor import Child, Exit, SupervisorError
from elasticjob_agent.supervisor.preforked import PreforkedWorker
from elasticjob_agent.warm_start import memory_policy

_INTERVAL_S = 1.0

log = logging.getLogger(__name__)


class MemoryShortError(SupervisorError):
    """There is too little memory for a zygote; the text is the reason."""


class MemoryMonitor:
    """Watches the memory on behalf of one WarmStart."""

    def __init__(self, kills: OomCounter, read: Callable[[], MemoryUsage | None] | None = None) -> None:
        """`kills` is the evidence about the workers; `read` returns the container's memory."""
        self._kills = kills
        self._read = read or MemoryMeter().read
        self.used = 0
        """Bytes of the last zygote with the workers that it had forked first."""

    def admit(self) -> int:
        """Return the bytes that a new zygote may take.

        Raises:
            MemoryShortError: it may take none now.
        """
        memory = self._read()
        reason = memory_policy.refuse_build(memory, expected=self.used)
        if reason or memory is None:
            raise MemoryShortError(reason)
        return memory_policy.limit_of_zygote(memory)

    def note_excess(self, limit: int) -> None:
        """Record that the imports have taken more than `limit`: the next zygote needs more room."""
        self.used = memory_policy.expected_after_excess(limit)

    async def wait_until_short(self) -> str:
        """Return the reason for which the zygote must end, once there is one."""
        while True:
            if reason := memory_policy.refuse_waiting(self._read()):
                return reason
            await asyncio.sleep(_INTERVAL_S)

    async def report(self, zygote: Child, workers: Sequence[PreforkedWorker]) -> None:
        """Measure these processes, and log the result."""
        self.used = 0
        for pid in (zygote.pid, *(worker.pid for worker in workers)):
            self.used += share_of_process(pid)
            await asyncio.sleep(0)  # the kernel takes milliseconds for each
        log.info("warm start: the zygote and %d waiting workers take %s", len(workers), memory_policy.size(self.used))
        if not is_first_to_go(zygote.pid):
            log.info("warm start: if memory runs out, the kernel may kill a worker before the zygote")

    def attribute_kills(self, zygote: Child) -> None:
        """Keep a kill of this zygote apart from those of workers."""
        zygote.exit.add_done_callback(self._on_exit)

    def attribute_kills_of_worker(self, worker: PreforkedWorker) -> None:
        """Keep a kill of this worker, while it waits, apart from those of workers that run."""
        worker.on_killed = self._kills.attribute_kill

    def _on_exit(self, exit_: "asyncio.Future[Exit]") -> None:
        if exit_.cancelled():
            return
        end = exit_.result()
        if end.code == -signal.SIGKILL and not end.stopped_by_us:
            self._kills.attribute_kill()

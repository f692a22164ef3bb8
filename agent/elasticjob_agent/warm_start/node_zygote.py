"""The zygote of a node, once it can fork: it forks workers ahead, and ends when memory is short."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator

from elasticjob_agent.supervisor import Supervisor, SupervisorError
from elasticjob_agent.warm_start.cold_reasons import ColdReasons
from elasticjob_agent.warm_start.limits import Limits
from elasticjob_agent.warm_start.memory_monitor import MemoryMonitor
from elasticjob_agent.warm_start.zygote import ZygoteForkError, ZygoteLost, ZygoteOutdatedError
from elasticjob_agent.warm_start.zygote_builder import ReadyZygote

_MAX_FORKS = 3
"""Forks for one waiting worker: a stop of a round may kill one that has just been forked."""
_MAX_FORKED = 16
"""Workers of one request: the first of them waits for the last, and two descriptors of each are open meanwhile."""


class NodeZygote:
    """The place of the one zygote of a node."""

    def __init__(
        self,
        supervisor: Supervisor,
        *,
        reasons: ColdReasons,
        limits: Limits,
        memory: MemoryMonitor,
        on_task_end: Callable[["asyncio.Task[None]"], None],
    ) -> None:
        """`on_task_end` gets each task that has ended: its error ends the warm starts."""
        self._supervisor = supervisor
        self._reasons = reasons
        self._limits = limits
        self._memory = memory
        self._on_task_end = on_task_end
        self.ready: ReadyZygote | None = None
        self.is_building = False
        """Whether a zygote is being built, or forks."""
        self._is_replaced = False
        """Whether the one that is being built will replace another one."""

    @contextlib.contextmanager
    def building(self, *, is_replacement: bool = False) -> Iterator[None]:
        """Mark that a zygote is being built, or forks: no second request to it is begun meanwhile."""
        self.is_building, self._is_replaced = True, is_replacement
        try:
            yield
        finally:
            self.is_building = self._is_replaced = False

    async def refill(self, ready: ReadyZygote, count: int) -> bool:
        """Have the zygote fork workers until `count` wait; return whether files of its imports have changed."""
        with self.building():
            try:
                await self._fork_missing(ready, count)
            except ZygoteForkError as error:
                ready.fork_failure = f"the zygote cannot fork: {error}"
            except TimeoutError:
                # A busy machine may be the reason, so another zygote may take its place.
                self._reasons.no_zygote = f"the zygote did not fork its workers within {self._limits.fork_s:.0f} s"
                await self.discard()
            except (ZygoteLost, SupervisorError, OSError) as error:
                self._reasons.no_zygote = f"the zygote is gone: {error}"
                await self.discard()
                return isinstance(error, ZygoteOutdatedError)
            self._begin_watch(ready)
        return False

    async def _fork_missing(self, ready: ReadyZygote, count: int) -> None:
        for attempt in range(_MAX_FORKS * count):
            ready.workers = ready.alive_workers
            missing = count - len(ready.workers)
            if missing <= 0:
                break
            async with asyncio.timeout(self._limits.fork_s):
                forked = await ready.zygote.fork(min(missing, _MAX_FORKED), is_checked=attempt == 0)
            for worker in forked:
                self._memory.attribute_kills_of_worker(worker)
            ready.workers += forked
        ready.fork_failure = ""

    async def report_memory(self, ready: ReadyZygote) -> None:
        """Report once how much memory this zygote and the workers that wait take."""
        if self.ready is ready and not ready.is_measured:
            await self._memory.report(ready.zygote.child, ready.workers)
            ready.is_measured = True

    def _begin_watch(self, ready: ReadyZygote) -> None:
        if self.ready is ready and ready.watch is None:
            ready.watch = asyncio.create_task(self._watch_memory(ready))
            ready.watch.add_done_callback(self._on_task_end)

    async def _watch_memory(self, ready: ReadyZygote) -> None:
        """End this zygote when memory is short."""
        self._reasons.zygote_ended(await self._memory.wait_until_short())
        if self.is_building and not self._is_replaced:  # a request to the zygote is open: its end answers it
            await self._supervisor.stop([ready.zygote.child], grace_s=0.0)
        else:
            await self.discard()

    async def discard(self) -> None:
        """End the zygote and the workers that wait, if there are any."""
        if (ready := self.ready) is not None:
            self.ready = None
            await self.end(ready)

    async def end(self, ready: ReadyZygote) -> None:
        """End this zygote and the workers that it has forked."""
        if ready.watch is not None and ready.watch is not asyncio.current_task():
            ready.watch.cancel()
        await self._supervisor.discard(ready.workers)
        await ready.zygote.close()

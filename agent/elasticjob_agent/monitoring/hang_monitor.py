"""Samples the workers periodically. When a hang is suspected, it requests their stacks on stderr and reports it.

The signal for stacks goes only to processes that registered for it: it might kill any other process. A script registers
by `worker.dump_stacks_on_request`, a warm start for the script. For each worker the agent also logs the kernel's view:
its state, and where it waits. All counts are read from /proc.
"""

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil

from elasticjob_agent.monitoring.hang_detector import ActivitySample, HangDetector
from elasticjob_agent.monitoring.stack_request import refuse_request
from elasticjob_agent.workers.progress import ProgressFifo
from elasticjob_api.records import WorkerReport, WorkerState

_SAMPLES_PER_DEADLINE = 10
"""Samples within one deadline."""
_MAX_INTERVAL_S = 30.0
_STACKS_S = 1.0
"""Seconds that processes get to write their stacks."""
_USUAL = {WorkerState.HEALTHY, WorkerState.SUCCEEDED}
_PROC = Path("/proc")

log = logging.getLogger(__name__)


class HangMonitor:
    """Watches the workers of one node; `on_change` is called when a suspicion begins or ends."""

    def __init__(
        self,
        *,
        workers: Callable[[], tuple[int, Sequence[WorkerReport]]],
        progress: ProgressFifo,
        clock: Callable[[], float],
        on_change: Callable[[], None],
    ) -> None:
        """`workers` returns the round and its workers; `clock` is monotonic seconds."""
        self._workers = workers
        self._progress = progress
        self._clock = clock
        self._on_change = on_change
        self.stalled_for_s: float | None = None
        """Seconds without activity if a hang is suspected, else None."""

    async def run(self, deadline_s: float) -> None:
        """Watch until cancelled."""
        detector = HangDetector(deadline_s)
        while True:
            await asyncio.sleep(min(deadline_s / _SAMPLES_PER_DEADLINE, _MAX_INTERVAL_S))
            now_s = self._clock()
            since_s = detector.observe(now_s, self.sample())
            was_active, is_active = self.stalled_for_s is None, since_s is None
            self.stalled_for_s = None if since_s is None else now_s - since_s
            if was_active is is_active:
                continue
            if is_active:
                log.warning("the workers are active again")
            else:
                await self._log_and_dump(now_s - (since_s or 0.0))
                detector.discount(self.sample())
            self._on_change()

    def sample(self) -> ActivitySample | None:
        """Return the workers' signs of life; None if none runs, one has failed, or one cannot be read.

        Workers that have ended with 0 are left out: the last one may hang at its end.
        """
        round_, workers = self._workers()
        alive = _alive(workers)
        if not alive or any(worker.state not in _USUAL for worker in workers):
            return None
        try:
            families = [_process_tree(worker.pid) for worker in alive]
            written = sum(_written(process.pid) for family in families for process in family)
            cpu_s = tuple(sum(_cpu_s(process) for process in family) for family in families)
        except (psutil.Error, OSError):  # a process has just ended, or belongs to another user: there is no sample
            return None
        return ActivitySample(round_, written, self._progress.messages, cpu_s)

    async def _log_and_dump(self, silent_s: float) -> None:
        round_, workers = self._workers()
        log.warning(
            "round %d: no worker has written or reported anything for %.0f s, and each is idle or spins; they may hang",
            round_,
            silent_s,
        )
        for worker in _alive(workers):
            log.warning("rank %d: %s", worker.rank, _kernel_view(worker.pid))
            if not sum(self._request_stacks(process.pid) for process in _process_tree_or_none(worker.pid)):
                log.warning("rank %d: no process of it can be asked for its stacks", worker.rank)
        await asyncio.sleep(_STACKS_S)

    def _request_stacks(self, pid: int) -> bool:
        """Ask this process for its stacks; return whether that was possible."""
        registered = self._progress.stack_signals.get(pid)
        if registered is None:
            return False
        if refusal := refuse_request(pid, registered):
            log.warning("no stacks from process %d: %s", pid, refusal)
            return False
        log.warning("requesting stacks from process %d by %s", pid, signal.Signals(registered.number).name)
        with contextlib.suppress(ProcessLookupError, PermissionError):  # it has ended, or runs as another user
            os.kill(pid, registered.number)
        return True


def _alive(workers: Sequence[WorkerReport]) -> list[WorkerReport]:
    return [worker for worker in workers if worker.state is WorkerState.HEALTHY]


def _process_tree(pid: int) -> list[psutil.Process]:
    leader = psutil.Process(pid)
    return [leader, *leader.children(recursive=True)]


def _process_tree_or_none(pid: int) -> list[psutil.Process]:
    try:
        return _process_tree(pid)
    except psutil.Error:
        return []


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _written(pid: int) -> int:
    """Return the bytes that this process has passed to write(2), as the kernel counts them."""
    for line in (_PROC / str(pid) / "io").read_text().splitlines():
        name, _, value = line.partition(": ")
        if name == "wchar":
            return int(value)
    return 0


def _kernel_view(pid: int) -> str:
    try:
        state = psutil.Process(pid).status()
        where = (_PROC / str(pid) / "wchan").read_text()
    except (psutil.Error, OSError):
        return f"process {pid} is gone"
    return f"process {pid} is {state}" + (f" in {where}" if where not in {"", "0"} else "")

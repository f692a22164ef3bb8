"""Worker states and samples of one node, written to `P/r/<slot>.<incarnation>`.

A change of state is written at once; changes within 20 ms go together. Samples of memory, cpu and progress are written
in every report period, and once ten seconds after a change. No decision depends on a report, so a report that cannot
be written is replaced by the next. A refused report shows that this node's own key is gone.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from elasticjob_agent.monitoring.recovery_timings import recovery_timings
from elasticjob_agent.monitoring.usage import Usage, UsageMeter
from elasticjob_agent.rendezvous.member.rendezvous_member import RendezvousMember
from elasticjob_agent.rendezvous.member.session import Session
from elasticjob_agent.rendezvous.protocol import transactions
from elasticjob_agent.tracing import Tracer
from elasticjob_agent.workers.node_workers import NodeWorkers
from elasticjob_agent.workers.progress import ProgressFifo
from elasticjob_api.records import NodeReport, RecoveryTimings, WorkerReport, WorkerState
from elasticjob_etcd.errors import EtcdError, LeaseNotFound
from elasticjob_etcd.interface import Etcd

if TYPE_CHECKING:
    from elasticjob_agent.monitoring.hang_monitor import HangMonitor

_COALESCE_S = 0.02
_RETRY_S = 1.0
_FIRST_SAMPLE_S = 10.0
"""Seconds after a change of state to the first sample, which need not wait for the period."""

log = logging.getLogger(__name__)


class Reporter:
    """Writes one node's reports until cancelled."""

    def __init__(
        self,
        *,
        etcd: Etcd,
        member: RendezvousMember,
        workers: NodeWorkers,
        progress: ProgressFifo,
        wall_ns: Callable[[], int],
        trace: Tracer,
    ) -> None:
        self._etcd = etcd
        self._member = member
        self._workers = workers
        self._progress = progress
        self._wall_ns = wall_ns
        self._changed = asyncio.Event()
        self._meter = UsageMeter(time.monotonic)
        self._changed_recently = False
        self._hang_monitor: HangMonitor | None = None
        self._trace = trace
        workers.on_report = self._changed.set

    async def run(self) -> None:
        """Report at every change and in every period, and watch for hangs if the job asks for it."""
        async with asyncio.TaskGroup() as group:
            await self._run(group)

    async def _run(self, group: asyncio.TaskGroup) -> None:
        while True:
            session = self._member.session
            period_s = session.runtime_config.report_period_s if session is not None else None
            if period_s is not None and self._changed_recently:
                period_s = min(period_s, _FIRST_SAMPLE_S)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(period_s):
                    await self._changed.wait()
                await asyncio.sleep(_COALESCE_S)
            self._changed_recently = self._changed.is_set()
            self._changed.clear()
            if self._member.session is not None and self._workers.assignment is not None:
                self._watch_for_hangs(group, self._member.session.runtime_config.progress_deadline_s)
                await self._write(self._member.session)

    def _watch_for_hangs(self, group: asyncio.TaskGroup, deadline_s: float) -> None:
        if deadline_s <= 0 or self._hang_monitor is not None:
            return
        from elasticjob_agent.monitoring.hang_monitor import HangMonitor  # noqa: PLC0415  # psutil: only for a job with a deadline

        self._hang_monitor = HangMonitor(
            workers=lambda: (
                self._workers.assignment.round if self._workers.assignment else 0,
                self._workers.reports(),
            ),
            progress=self._progress,
            clock=time.monotonic,
            on_change=self._changed.set,
        )
        group.create_task(self._hang_monitor.run(deadline_s))

    async def _write(self, session: Session) -> None:
        try:
            result = await self._etcd.txn(transactions.report(session.me, self._build_report(session)))
        except LeaseNotFound:
            self._session_lost(session)
        except EtcdError as error:
            log.debug("report not written, the next one replaces it: %s", error)
            await asyncio.sleep(_RETRY_S)
            self._changed.set()
        else:
            if not result.succeeded:
                self._session_lost(session)

    def _session_lost(self, session: Session) -> None:
        # A report that was under way while the node joined again concerns the old session only.
        if self._member.session is session:
            self._member.session_lost()

    def _build_report(self, session: Session) -> NodeReport:
        assignment, workers = self._workers.assignment, self._workers.reports()
        used = self._meter.measure([worker.pid for worker in workers if worker.state is WorkerState.HEALTHY])
        return NodeReport(
            pod=session.node.pod,
            pod_uid=session.node.pod_uid,
            round=assignment.round if assignment else 0,
            group_rank=assignment.group_rank if assignment else None,
            workers=tuple(_with_usage(worker, used) for worker in workers),
            progress=self._progress.last,
            restart_count=assignment.restart_count if assignment else 0,
            time_ns=self._wall_ns(),
            stalled_since_ns=self._stalled_since_ns(),
            recovery=self._recovery(assignment.round) if assignment else None,
        )

    def _recovery(self, round_: int) -> RecoveryTimings | None:
        started_ns = self._workers.started_ns
        return None if started_ns is None else recovery_timings(self._trace.points, round_, started_ns)

    def _stalled_since_ns(self) -> int:
        silent_s = self._hang_monitor.stalled_for_s if self._hang_monitor is not None else None
        return 0 if silent_s is None else self._wall_ns() - int(silent_s * 1e9)


def _with_usage(worker: WorkerReport, used: Mapping[int, Usage]) -> WorkerReport:
    """Return the report with the worker's usage; unchanged if the worker has ended or is not healthy."""
    use = used.get(worker.pid) if worker.state is WorkerState.HEALTHY else None
    return worker if use is None else replace(worker, cpu_percent=use.cpu_percent, memory_bytes=use.memory_bytes)

"""Write the worker states of this node to `P/r/<slot>.<incarnation>`, and samples to a key beside it, for the status.

A change of state is written at once, with samples; changes within 20 ms go together. Samples of memory, cpu and
progress alone are written in every report period, and once ten seconds after a change. No decision depends on a
report, so a report that cannot be written is replaced by the next. A refused report shows that this node's own key is
gone.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from elasticjob_agent.monitoring.last_report import LastReport
from elasticjob_agent.monitoring.recovery_timings import recovery_timings
from elasticjob_agent.monitoring.usage import UsageMeter
from elasticjob_agent.rendezvous.member.rendezvous_member import RendezvousMember
from elasticjob_agent.rendezvous.member.session import Session
from elasticjob_agent.rendezvous.protocol import transactions
from elasticjob_agent.rendezvous.protocol.transactions import SessionIdentity
from elasticjob_agent.tracing import Tracer
from elasticjob_agent.workers.node_workers import NodeWorkers
from elasticjob_agent.workers.progress import ProgressFifo
from elasticjob_api.records import KeepReport, NodeReport, NodeSamples, RecoveryTimings, WorkerReport, WorkerState
from elasticjob_etcd.errors import EtcdError, LeaseNotFound
from elasticjob_etcd.interface import Etcd

if TYPE_CHECKING:
    from elasticjob_agent.monitoring.hang_monitor import HangMonitor

_COALESCE_S = 0.02
_RETRY_S = 1.0
_FIRST_SAMPLE_S = 10.0
"""Seconds after a change of state to the first sample, which need not wait for the period."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _WrittenReport:
    """The report in etcd, with its writer and its revision."""

    me: SessionIdentity
    report: NodeReport
    revision: int


class KeepReporter(Protocol):
    """Reports the steps that a node keeps in memory."""

    on_report: Callable[[], None]
    """Called when `report` has news that cannot wait for the period."""
    last_report: LastReport

    @property
    def is_waiting(self) -> bool:
        """Whether the node waits for a disk: that is reported before the first round, too."""

    @property
    def restoring(self) -> int | None:
        """The number of the step for which the workers of this node wait; None: they wait for none."""

    def report(self) -> KeepReport:
        """Return what the node knows and holds now."""


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
        keep: KeepReporter | None = None,
    ) -> None:
        """`keep` reports the kept steps; None if this node keeps none."""
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
        self._written: _WrittenReport | None = None
        """None if the report may have to be written again."""
        self._stalled_ns = 0
        workers.on_report = self._changed.set
        self._keep = keep
        if keep is not None:
            keep.on_report = self._changed.set

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
            session = self._member.session
            if session is not None and self._workers.assignment is not None:
                self._watch_for_hangs(group, session.runtime_config.progress_deadline_s)
            if session is not None and self._has_news:
                await self._write(session)

    @property
    def _has_news(self) -> bool:
        """Whether a report has more than the node record: a round was begun here, or the node waits for a step."""
        is_waiting = self._keep is not None and (self._keep.is_waiting or self._keep.restoring is not None)
        return self._workers.assignment is not None or self._written is not None or is_waiting

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
        workers = self._workers.reports()
        report, samples = self._build_report(session, workers), self._build_samples(workers)
        written = self._find_written(session.me, report)
        txn = (
            transactions.report(session.me, report, samples)
            if written is None
            else transactions.samples(session.me, samples, written.revision)
        )
        try:
            result = await self._etcd.txn(txn)
        except LeaseNotFound:
            self._session_lost(session)
        except EtcdError as error:
            log.debug("report not written, the next one replaces it: %s", error)
            await asyncio.sleep(_RETRY_S)
            self._changed.set()
        else:
            if result.succeeded:
                self._written = written or _WrittenReport(session.me, report, result.revision)
                if self._keep is not None and samples.keep is not None:
                    self._keep.last_report.note(samples.keep)
            elif written is None:
                self._session_lost(session)
            else:  # etcd has another report, for example that of a restored backup
                self._written = None
                self._changed.set()

    def _find_written(self, me: SessionIdentity, report: NodeReport) -> _WrittenReport | None:
        """Return the report in etcd if it is this one."""
        written = self._written
        return written if written is not None and (written.me, written.report) == (me, report) else None

    def _session_lost(self, session: Session) -> None:
        # A report that was under way while the node joined again concerns the old session only.
        if self._member.session is session:
            self._member.session_lost()

    def _build_report(self, session: Session, workers: tuple[WorkerReport, ...]) -> NodeReport:
        assignment = self._workers.assignment
        return NodeReport(
            pod=session.node.pod,
            pod_uid=session.node.pod_uid,
            round=assignment.round if assignment else 0,
            group_rank=assignment.group_rank if assignment else None,
            workers=workers,
            restart_count=assignment.restart_count if assignment else 0,
            stalled_since_ns=self._stalled_since_ns(),
            recovery=self._recovery(assignment.round) if assignment else None,
            start=self._workers.start_report(),
        )

    def _build_samples(self, workers: tuple[WorkerReport, ...]) -> NodeSamples:
        used = self._meter.measure([worker.pid for worker in workers if worker.state is WorkerState.HEALTHY])
        usages = [used.get(worker.pid) if worker.state is WorkerState.HEALTHY else None for worker in workers]
        return NodeSamples(
            round=self._workers.assignment.round if self._workers.assignment else 0,
            cpu_percent=tuple(None if usage is None else usage.cpu_percent for usage in usages),
            memory_bytes=tuple(None if usage is None else usage.memory_bytes for usage in usages),
            progress=self._progress.last,
            time_ns=self._wall_ns(),
            keep=None if self._keep is None else self._keep.report(),
        )

    def _recovery(self, round_: int) -> RecoveryTimings | None:
        started_ns = self._workers.started_ns
        return None if started_ns is None else recovery_timings(self._trace.points, round_, started_ns)

    def _stalled_since_ns(self) -> int:
        """Return since when the workers are suspected to hang, the same time for as long as they are; 0 if not."""
        silent_s = self._hang_monitor.stalled_for_s if self._hang_monitor is not None else None
        if silent_s is None:
            self._stalled_ns = 0
        elif not self._stalled_ns:
            self._stalled_ns = self._wall_ns() - int(silent_s * 1e9)
        return self._stalled_ns

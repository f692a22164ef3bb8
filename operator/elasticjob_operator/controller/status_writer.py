"""Writes the status of a job, and then the events of its changes. No other module writes either.

A job's status is written at most once a second. It is written at most every 30 seconds if only samples changed:
progress, cpu, memory, kept steps or the first output. With many jobs it is written less often (`Settings`). A delayed
status is not lost: the next one is compared with the last that was written.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from elasticjob_api.job import status_to_dict
from elasticjob_api.status import JobStatus, NodeStatus, StartStatus
from elasticjob_operator.controller.clocks import Clocks
from elasticjob_operator.controller.job_parser import read_status, unknown_in_status
from elasticjob_operator.errors import ClusterError
from elasticjob_operator.metrics.recorder import MetricsRecorder
from elasticjob_operator.model import objects
from elasticjob_operator.model.cluster_interface import Cluster, Object, Resource
from elasticjob_operator.model.compare import fields_except
from elasticjob_operator.model.event import Event
from elasticjob_operator.model.job_key import JobKey
from elasticjob_operator.model.job_state import WATCH_DEADLINE_S, JobState
from elasticjob_operator.model.timestamps import from_rfc3339
from elasticjob_operator.policy.lifecycle.installation import FIELD
from elasticjob_operator.policy.lifecycle.resync import resync_in_s
from elasticjob_operator.policy.status.events import events
from elasticjob_operator.policy.status.preserved_fields import with_preserved_fields
from elasticjob_operator.render.event import render_event
from elasticjob_operator.settings import Settings

SATURATED_DELAY_S, _MAX_SATURATED_DELAY_S = 2.0, 16.0
"""First and longest delay of a status write while the API server is saturated; it doubles each time.

The reconcile does not wait for the write. A thousand jobs that retry often would add to the load.
"""
_MAX_RECORDED_EVENTS = 100
"""Events of one job whose repetitions are counted in one object; an event beyond that begins a new count."""

log = logging.getLogger(__name__)


_job_state = fields_except(JobStatus, "nodes", "progress", "keep")
_fields_of_node = fields_except(
    NodeStatus, "cpu_percent", "memory_bytes", "rank_cpu_percent", "rank_memory_bytes", "start", "keep"
)
_fields_of_start = fields_except(StartStatus, "first_output_milliseconds")


def _node_state(node: NodeStatus) -> tuple[Any, Any]:
    # The report with the start of a round may be the first one after the round is in the status.
    return _fields_of_node(node), node.start and _fields_of_start(node.start)


def _last_on_disk(status: JobStatus) -> tuple[Any, Any] | None:
    """Return what an ended job has on disk: no later sample of it comes."""
    keep = status.keep
    return None if keep is None or not status.completion_time else (keep.persisted_step, keep.persist_error)


def _differs_only_in_samples(one: JobStatus, other: JobStatus) -> bool:
    """Return whether two statuses differ at most in samples and first output; other changes are not delayed."""
    # The keys that have changed cannot decide this. A reconcile has several causes: keys of etcd, pods, time. Its
    # status has the newest samples after any of them. So after a pod's event a status may differ in samples alone.
    # After new samples it may differ in more, because time has passed.
    if _last_on_disk(one) != _last_on_disk(other):
        return False
    return _job_state(one) == _job_state(other) and [*map(_node_state, one.nodes)] == [*map(_node_state, other.nodes)]


class StatusWriter:
    """Writes statuses and events for the reconciler."""

    def __init__(
        self,
        *,
        cluster: Cluster,
        settings: Settings,
        clocks: Clocks,
        metrics: MetricsRecorder,
        jobs: Callable[[], int] = lambda: 1,
        is_saturated: Callable[[], bool] = lambda: False,
    ) -> None:
        self._jobs = jobs
        self._is_saturated = is_saturated
        self._metrics = metrics
        self._settings = settings
        self._cluster = cluster
        self._clocks = clocks
        self._started_s = clocks.monotonic()

    def reset(self) -> None:
        """Begin as a new process does: the first progress updates are spread over time again."""
        self._started_s = self._clocks.monotonic()

    async def write(self, key: JobKey, obj: Object, job_state: JobState, status: JobStatus) -> float | None:
        """Write `status` if it has changed; return seconds until it may be written if that is not now."""
        before = job_state.status or read_status(obj)
        if status == before:
            return await self._correct(key, obj, job_state, status)
        progress_only = _differs_only_in_samples(status, before)
        wait_s = (
            self._progress_due_s(key, job_state) if progress_only else self._due_s(job_state)
        ) - self._clocks.monotonic()
        if wait_s > 0:
            return wait_s
        if self._is_saturated():
            job_state.deferred_writes += 1
            return min(_MAX_SATURATED_DELAY_S, SATURATED_DELAY_S * 2.0 ** min(job_state.deferred_writes - 1, 10))
        job_state.deferred_writes = 0
        await self._write(key, obj, job_state, status)
        job_state.last_write_was_progress_only = progress_only
        self._measure(key, obj, before, status)
        await self.record(key, obj, job_state, events(before, status))
        return None

    def _due_s(self, job_state: JobState) -> float:
        return job_state.status_written_s + self._settings.status_period_s

    def _progress_due_s(self, key: JobKey, job_state: JobState) -> float:
        """Return when a status that differs in progress alone may be written."""
        if job_state.status is not None:
            return job_state.status_written_s + self._settings.progress_interval_s(self._jobs())
        # The first write of a new process: all jobs have changed by now, so their writes are spread over time.
        return self._started_s + resync_in_s(
            key.uid, jobs=self._jobs(), jobs_per_second=self._settings.progress_writes_per_s
        )

    def _measure(self, key: JobKey, obj: Object, before: JobStatus, after: JobStatus) -> None:
        created_s = from_rfc3339(objects.metadata(obj).get("creationTimestamp"))
        age_s = None if created_s is None else max(0.0, self._clocks.wall() - created_s)
        self._metrics.status_written(key, before, after, age_s=age_s)

    async def _correct(self, key: JobKey, obj: Object, job_state: JobState, status: JobStatus) -> float | None:
        """Write the status again if the API server has another one: a late write of an ended process, or of a user.

        Each version of the object is corrected once, because the API server may not store every field.
        """
        version = str(objects.metadata(obj).get("resourceVersion", ""))
        if job_state.status is None or job_state.corrected_version == version or _is_current(obj, job_state, status):
            return None
        wait_s = job_state.status_written_s + WATCH_DEADLINE_S - self._clocks.monotonic()
        if wait_s > 0:
            return wait_s  # the watch may not have delivered our own write yet
        log.warning("%s: the stored status is not the one that the operator wrote; writing it again", key)
        await self._write(key, obj, job_state, status)
        job_state.corrected_version = version
        return None

    async def _write(self, key: JobKey, obj: Object, job_state: JobState, status: JobStatus) -> None:
        written = self._with_preserved_fields(obj, job_state, status_to_dict(status))
        version = objects.version_of(obj)  # a job of the same name may have replaced it: see `patch_status`
        await self._cluster.patch_status(Resource.JOB, key.namespace, key.name, written, uid=key.uid, version=version)
        claim = {FIELD: job_state.installation} if job_state.installation else {}
        job_state.status, job_state.written_status = status, {**written, **claim}
        job_state.status_written_s = self._clocks.monotonic()

    def _with_preserved_fields(self, obj: Object, job_state: JobState, written: dict[str, Any]) -> dict[str, Any]:
        """Return the status with the fields that a newer operator wrote; our own writes already have them."""
        if job_state.status is None:
            job_state.has_unknown_status = bool(unknown_in_status(obj))
        if not job_state.has_unknown_status:
            return written
        stored = job_state.written_status if job_state.status else obj.get("status")
        return with_preserved_fields(stored, written) if isinstance(stored, Mapping) else written

    async def record(self, key: JobKey, obj: Object, job_state: JobState, events: Iterable[Event]) -> None:
        """Write events about the job."""
        for event in events:
            log.log(logging.WARNING if event.warning else logging.INFO, "%s: %s: %s", key, event.reason, event.message)
            try:
                now_s = self._clocks.wall()
                first_s, count = job_state.recorded_events.get(event, (now_s, 0))
                body = render_event(obj, event, first_s=first_s, last_s=now_s, count=count + 1)
                await self._cluster.apply(Resource.EVENT, body)
                job_state.recorded_events[event] = first_s, count + 1
                while len(job_state.recorded_events) > _MAX_RECORDED_EVENTS:
                    del job_state.recorded_events[next(iter(job_state.recorded_events))]
            except ClusterError as error:
                # An event is not retried, because the status shows the same.
                log.warning("%s: cannot write the event %s: %s", key, event.reason, error)


def _is_current(obj: Object, job_state: JobState, status: JobStatus) -> bool:
    """Return whether the object's status is `status`."""
    # Parsing is needed only if the stored status is not the one that was written.
    return obj.get("status") == job_state.written_status or read_status(obj) == status

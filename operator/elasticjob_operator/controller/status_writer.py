"""Writes the status of a job, and after it the events of the same changes. Nothing else writes either.

At most one write a second per job, and for progress, cpu and memory alone one every thirty, and with many jobs fewer
(`Settings`). A status that is not written yet is not lost: it is judged anew from the last one that was.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from elasticjob_api.job import status_to_dict
from elasticjob_api.status import JobStatus, NodeStatus
from elasticjob_operator.controller.clocks import Clocks
from elasticjob_operator.controller.job_parser import read_status, unknown_in_status
from elasticjob_operator.errors import ClusterError
from elasticjob_operator.metrics.recorder import Meter
from elasticjob_operator.model import objects
from elasticjob_operator.model.cluster_interface import Cluster, Object, Resource
from elasticjob_operator.model.compare import all_but
from elasticjob_operator.model.event import Event
from elasticjob_operator.model.job_key import JobKey
from elasticjob_operator.model.job_state import SHOWN_WITHIN_S, Ledger
from elasticjob_operator.model.timestamps import from_rfc3339
from elasticjob_operator.policy.lifecycle.installation import FIELD
from elasticjob_operator.policy.lifecycle.resync import upkeep_in_s
from elasticjob_operator.policy.status.events import events
from elasticjob_operator.policy.status.preserved_fields import with_unknown
from elasticjob_operator.render.event import render_event
from elasticjob_operator.settings import Settings

CROWDED_S, _MOST_CROWDED_S = 2.0, 16.0
"""While the API server is saturated, a job's turn defers the status write instead of waiting for it. The delay doubles
each time: a thousand jobs that retry would add to the load.
"""
_REMEMBERED = 100
"""Events of one job that are counted up as the same object when they repeat; an older one begins anew."""

log = logging.getLogger(__name__)


_job_state = all_but(JobStatus, "nodes", "progress")
_node_state = all_but(NodeStatus, "cpu_percent", "memory_bytes", "rank_cpu_percent", "rank_memory_bytes")


def _same_but_samples(one: JobStatus, other: JobStatus) -> bool:
    """Any other difference is written at once."""
    return _job_state(one) == _job_state(other) and [*map(_node_state, one.nodes)] == [*map(_node_state, other.nodes)]


class Speaker:
    """The voice of the reconciler."""

    def __init__(
        self,
        *,
        cluster: Cluster,
        settings: Settings,
        clocks: Clocks,
        meter: Meter,
        jobs: Callable[[], int] = lambda: 1,
        crowded: Callable[[], bool] = lambda: False,
    ) -> None:
        self._jobs = jobs
        self._crowded = crowded
        self._meter = meter
        self._settings = settings
        self._cluster = cluster
        self._clocks = clocks
        self._began_s = clocks.monotonic()

    def begin_anew(self) -> None:
        """Begin as a new process: events of another one's writes are repeated in each job's turn."""
        self._began_s = self._clocks.monotonic()

    async def say(self, key: JobKey, obj: Object, ledger: Ledger, status: JobStatus) -> float | None:
        """Write `status` if it is new; seconds until it may be written, if that is not now."""
        before = ledger.status or read_status(obj)
        if status == before:
            return await self._correct(key, obj, ledger, status)
        soft = _same_but_samples(status, before)
        wait_s = (self._soft_from_s(key, ledger) if soft else self._from_s(ledger)) - self._clocks.monotonic()
        if wait_s > 0:
            return wait_s
        if self._crowded():
            ledger.unheard += 1
            return min(_MOST_CROWDED_S, CROWDED_S * 2.0 ** min(ledger.unheard - 1, 10))
        ledger.unheard = 0
        await self._write(key, obj, ledger, status)
        ledger.said_softly = soft
        self._measure(key, obj, before, status)
        await self._tell(key, obj, ledger, before, status)
        return None

    def _from_s(self, ledger: Ledger) -> float:
        return ledger.status_written_s + self._settings.status_period_s

    def _soft_from_s(self, key: JobKey, ledger: Ledger) -> float:
        """A process that has written nothing of a job yet is a new one: its predecessor's jobs have their turns."""
        if ledger.status is not None:
            return ledger.status_written_s + self._settings.soft_period_s(self._jobs())
        return self._began_s + upkeep_in_s(key.uid, jobs=self._jobs(), a_second=self._settings.soft_writes_per_s)

    def _measure(self, key: JobKey, obj: Object, before: JobStatus, after: JobStatus) -> None:
        created_s = from_rfc3339(objects.metadata(obj).get("creationTimestamp"))
        age_s = None if created_s is None else max(0.0, self._clocks.wall() - created_s)
        self._meter.status_written(key, before, after, age_s=age_s)

    async def _correct(self, key: JobKey, obj: Object, ledger: Ledger, status: JobStatus) -> float | None:
        """Write it again if the API server has another status: a late write of an ended process, or of a person.

        Once for each version of the object: an API server that does not store all of it is no reason to go on.
        """
        version = str(objects.metadata(obj).get("resourceVersion", ""))
        if ledger.status is None or ledger.corrected_version == version or _says(obj, ledger, status):
            return None
        wait_s = ledger.status_written_s + SHOWN_WITHIN_S - self._clocks.monotonic()
        if wait_s > 0:
            return wait_s  # our own write is on its way back to us
        log.warning("%s: the status is not the one that was written; writing it again", key)
        await self._write(key, obj, ledger, status)
        ledger.corrected_version = version
        return None

    async def _write(self, key: JobKey, obj: Object, ledger: Ledger, status: JobStatus) -> None:
        written = self._with_unknown(obj, ledger, status_to_dict(status))
        version = objects.version_of(obj)  # a job of the same name may have taken its place: see `patch_status`
        await self._cluster.patch_status(Resource.JOB, key.namespace, key.name, written, uid=key.uid, version=version)
        claim = {FIELD: ledger.installation} if ledger.installation else {}
        ledger.status, ledger.status_as_written = status, {**written, **claim}
        ledger.status_written_s = self._clocks.monotonic()

    def _with_unknown(self, obj: Object, ledger: Ledger, written: dict[str, Any]) -> dict[str, Any]:
        """Add what a newer operator wrote; what this process has written since has it already."""
        if ledger.status is None:
            ledger.has_unknown_status = bool(unknown_in_status(obj))
        if not ledger.has_unknown_status:
            return written
        stored = ledger.status_as_written if ledger.status else obj.get("status")
        return with_unknown(stored, written) if isinstance(stored, Mapping) else written

    async def _tell(self, key: JobKey, obj: Object, ledger: Ledger, before: JobStatus, after: JobStatus) -> None:
        await self.tell(key, obj, ledger, events(before, after))

    async def tell(self, key: JobKey, obj: Object, ledger: Ledger, told: Iterable[Event]) -> None:
        """Write events about the job."""
        for event in told:
            log.log(logging.WARNING if event.warning else logging.INFO, "%s: %s: %s", key, event.reason, event.message)
            try:
                now_s = self._clocks.wall()
                first_s, count = ledger.told.get(event, (now_s, 0))
                body = render_event(obj, event, first_s=first_s, last_s=now_s, count=count + 1)
                await self._cluster.apply(Resource.EVENT, body)
                ledger.told[event] = first_s, count + 1
                while len(ledger.told) > _REMEMBERED:
                    del ledger.told[next(iter(ledger.told))]
            except ClusterError as error:
                # Events are written once; the status has the same content, and stays.
                log.warning("%s: the event %s could not be written: %s", key, event.reason, error)


def _says(obj: Object, ledger: Ledger, status: JobStatus) -> bool:
    """What stands there is `status`; it is parsed only if it is not the very text that was written."""
    return obj.get("status") == ledger.status_as_written or read_status(obj) == status

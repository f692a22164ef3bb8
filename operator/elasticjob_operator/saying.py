"""Writes the status of a job, and after it the events that tell the same story. Nothing else writes either.

At most one write a second per job, and for progress alone one every thirty (`Settings`). A status that is not
written yet is not lost: it is judged anew from the last one that was.
"""

import logging
from collections.abc import Callable
from dataclasses import replace

from elasticjob_api.job import status_to_dict
from elasticjob_api.status import JobStatus
from elasticjob_operator.acceptance import read_status
from elasticjob_operator.cluster.protocol import Cluster, Object, Resource
from elasticjob_operator.errors import ClusterError
from elasticjob_operator.jobkey import JobKey
from elasticjob_operator.ledger import Ledger
from elasticjob_operator.policy.events import events
from elasticjob_operator.render.event import render_event
from elasticjob_operator.settings import Settings

log = logging.getLogger(__name__)


class Speaker:
    """The voice of the reconciler."""

    def __init__(self, *, cluster: Cluster, settings: Settings, clock: Callable[[], float]) -> None:
        self._settings = settings
        self._cluster = cluster
        self._clock = clock

    async def say(self, key: JobKey, obj: Object, ledger: Ledger, status: JobStatus) -> float | None:
        """Write `status` if it is new; seconds until it may be written, if that is not now."""
        before = ledger.status or read_status(obj)
        if status == before:
            return None
        soft = replace(status, progress=before.progress) == before
        period_s = self._settings.soft_status_period_s if soft else self._settings.status_period_s
        wait_s = ledger.status_written_s + period_s - self._clock()
        if wait_s > 0:
            return wait_s
        await self._cluster.patch_status(Resource.JOB, key.namespace, key.name, status_to_dict(status))
        ledger.status, ledger.status_written_s = status, self._clock()
        await self._tell(key, obj, before, status)
        return None

    async def _tell(self, key: JobKey, obj: Object, before: JobStatus, after: JobStatus) -> None:
        for event in events(before, after):
            log.log(logging.WARNING if event.warning else logging.INFO, "%s: %s: %s", key, event.reason, event.message)
            try:
                await self._cluster.create(Resource.EVENT, render_event(obj, event, self._clock()))
            except ClusterError as error:
                # Events are told once; the status says the same, and stays.
                log.warning("%s: the event %s could not be written: %s", key, event.reason, error)

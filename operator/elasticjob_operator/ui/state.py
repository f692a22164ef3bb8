"""The content of the page: the last snapshot of each job, and the rounds that this process saw.

The reconciler writes into it at each turn of a job (a reference or two: nothing is made for nobody); streams of the
page read it and wait for more. One event loop, so between two awaits everybody sees one state.
"""

import asyncio
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from elasticjob_api.records import WorkerFailure
from elasticjob_api.status import JobStatus
from elasticjob_operator.controller.observer import ReconcileObserver
from elasticjob_operator.model.cluster_interface import Object
from elasticjob_operator.model.job_key import JobKey
from elasticjob_operator.model.recovery import RecoverySample
from elasticjob_operator.model.rendezvous_view import RendezvousView
from elasticjob_operator.model.timestamps import from_rfc3339
from elasticjob_operator.ui.round_history import RoundHistory

MAX_FAILURES = 20
_MAX_DELETED = 1000

MemberAt = tuple[str, str]
"""Namespace and name: of two jobs that had it one after the other the younger is shown."""


@dataclass(slots=True, kw_only=True)
class JobEntry:
    """One job; `version` is the board's at its last change."""

    key: JobKey
    obj: Object
    status: JobStatus
    view: RendezvousView
    version: int
    rounds: RoundHistory = field(default_factory=RoundHistory)
    failures: Mapping[str, WorkerFailure] = field(default_factory=dict)
    """The records of the last round that had any, the root cause first: etcd forgets them two rounds later."""


class PageState(ReconcileObserver):
    """All jobs of one operator."""

    def __init__(self) -> None:
        self.version = 0
        """It grows with every change."""
        self.jobs: dict[MemberAt, JobEntry] = {}
        self._deleted: deque[tuple[int, MemberAt]] = deque(maxlen=_MAX_DELETED)
        self._waiters: set[asyncio.Future[None]] = set()

    def reconciled(self, key: JobKey, obj: Object, status: JobStatus, view: RendezvousView, now_s: float) -> None:
        """It is as new as this; so is the round that it is in."""
        place = key.namespace, key.name
        entry = self.jobs.get(place)
        if entry is None or entry.key != key:
            entry = self.jobs[place] = JobEntry(key=key, obj=obj, status=status, view=view, version=0)
        entry.obj, entry.status, entry.view = obj, status, view
        if view.world is not None:
            since_s = from_rfc3339(status.last_rendezvous_time)
            entry.rounds.record(view.world, now_s, active_since_s=since_s)
        if view.failures:
            entry.failures = _recent_failures(view)
        entry.version = self._changed()

    def recovered(self, key: JobKey, recovered: RecoverySample) -> None:
        """The round's steps."""
        if (entry := self.jobs.get((key.namespace, key.name))) is not None and entry.key == key:
            entry.rounds.measured(recovered.round, recovered.steps)

    def deleted(self, key: JobKey) -> None:
        """Its place is free."""
        place = key.namespace, key.name
        if (entry := self.jobs.get(place)) is not None and entry.key == key:
            del self.jobs[place]
            self._deleted.append((self._changed(), place))

    def since(self, version: int) -> tuple[list[JobEntry], list[MemberAt]] | None:
        """What has changed and what has gone after `version`; None if that is too long ago to say: read all of it."""
        if self._deleted and len(self._deleted) == _MAX_DELETED and self._deleted[0][0] > version:
            return None
        gone = [place for at, place in self._deleted if at > version and place not in self.jobs]
        return [entry for entry in self.jobs.values() if entry.version > version], gone

    async def changed(self, version: int) -> None:
        """Return when there is anything after `version`."""
        while self.version <= version:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.add(waiter)
            try:
                await waiter
            finally:
                self._waiters.discard(waiter)

    def _changed(self) -> int:
        self.version += 1
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        return self.version


def _recent_failures(view: RendezvousView) -> dict[str, WorkerFailure]:
    """Of the newest round with failures, the root cause first."""
    root = view.world.root_cause if view.world is not None else ""
    newest = max(int(name.partition("/")[0]) for name in view.failures)
    names = [name for name in sorted(view.failures) if name == root or name.startswith(f"{newest}/")]
    names.sort(key=lambda name: name != root)
    return {name: view.failures[name] for name in names[:MAX_FAILURES]}

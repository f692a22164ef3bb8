"""The content of the page: the last snapshot of each job, and what etcd and the status keep for a short time only.

The reconciler stores references at each reconcile, and nothing is computed without a reader. Streams of the page read
the state and wait for changes. All run in one event loop, so between two awaits every reader has the same state.
"""

import asyncio
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from elasticjob_api.keys import FailureKey
from elasticjob_api.records import WorkerFailure
from elasticjob_api.rendezvous_state import RoundPhase
from elasticjob_api.rendezvous_view import RendezvousView
from elasticjob_api.status import JobStatus, RoundStatus
from elasticjob_operator.controller.observer import ReconcileObserver
from elasticjob_operator.model.cluster_interface import Object
from elasticjob_operator.model.job_key import JobKey
from elasticjob_operator.model.recovery import RecoverySample

MAX_FAILURES = 20
MAX_ROUNDS = 200
_MAX_DELETED = 1000

NamespacedName = tuple[str, str]
"""Namespace and name of a job; of two successive jobs with one name, the newer is shown."""


@dataclass(slots=True, kw_only=True)
class JobEntry:
    """One job; `version` is that of the state at the job's last change."""

    key: JobKey
    obj: Object
    status: JobStatus
    view: RendezvousView
    version: int
    rounds: dict[int, RoundStatus] = field(default_factory=dict)
    """The rounds of the status, and up to `MAX_ROUNDS` with those that have left it."""
    opened_s: dict[int, float] = field(default_factory=dict)
    """Round → when this process first observed that it was forming."""
    steps: dict[int, Mapping[str, float]] = field(default_factory=dict)
    """Round → seconds of detect, stop, agree and start, once the agents have reported them."""
    failures: Mapping[FailureKey, WorkerFailure] = field(default_factory=dict)
    """The failures of the last round that had any, the root cause first; etcd keeps them for two rounds only."""


class PageState(ReconcileObserver):
    """The state of all jobs of one operator."""

    def __init__(self) -> None:
        self.version = 0
        """A number that grows with every change."""
        self.jobs: dict[NamespacedName, JobEntry] = {}
        self._deleted: deque[tuple[int, NamespacedName]] = deque(maxlen=_MAX_DELETED)
        self._waiters: set[asyncio.Future[None]] = set()

    def reconciled(self, key: JobKey, obj: Object, status: JobStatus, view: RendezvousView, now_s: float) -> None:
        """Store a job's newest state, and add its rounds to those that are known."""
        namespaced_name = key.namespace, key.name
        entry = self.jobs.get(namespaced_name)
        if entry is None or entry.key != key:
            entry = self.jobs[namespaced_name] = JobEntry(key=key, obj=obj, status=status, view=view, version=0)
        entry.obj, entry.status, entry.view = obj, status, view
        if view.state is not None and view.state.phase is RoundPhase.FORMING:
            entry.opened_s.setdefault(view.state.round, now_s)
        entry.rounds.update((each.round, each) for each in status.rounds)
        for known in (entry.rounds, entry.opened_s, entry.steps):
            _drop_oldest(known)
        if view.failures:
            entry.failures = _recent_failures(view)
        entry.version = self._changed()

    def recovered(self, key: JobKey, recovered: RecoverySample) -> None:
        """Record the durations of a round's steps."""
        if (entry := self.jobs.get((key.namespace, key.name))) is not None and entry.key == key:
            entry.steps[recovered.round] = recovered.steps

    def deleted(self, key: JobKey) -> None:
        """Remove a deleted job."""
        namespaced_name = key.namespace, key.name
        if (entry := self.jobs.get(namespaced_name)) is not None and entry.key == key:
            del self.jobs[namespaced_name]
            self._deleted.append((self._changed(), namespaced_name))

    def since(self, version: int) -> tuple[list[JobEntry], list[NamespacedName]] | None:
        """Return the changed and the deleted jobs since `version`; None if deletions since then are no longer known."""
        if self._deleted and len(self._deleted) == _MAX_DELETED and self._deleted[0][0] > version:
            return None
        deleted = [job for at, job in self._deleted if at > version and job not in self.jobs]
        return [entry for entry in self.jobs.values() if entry.version > version], deleted

    async def changed(self, version: int) -> None:
        """Wait for a change after `version`."""
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


def _drop_oldest(by_round: dict[int, Any]) -> None:
    while len(by_round) > MAX_ROUNDS:
        del by_round[min(by_round)]


def _recent_failures(view: RendezvousView) -> dict[FailureKey, WorkerFailure]:
    """Return the failures of the newest round that has any, the root cause first."""
    root = view.state.root_failure if view.state is not None else None
    newest = max(key.round for key in view.failures)
    keys = [key for key in sorted(view.failures) if key == root or key.round == newest]
    keys.sort(key=lambda key: key != root)
    return {key: view.failures[key].failure for key in keys[:MAX_FAILURES]}

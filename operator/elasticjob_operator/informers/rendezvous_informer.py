"""The operator's view of `/elasticjob/<cluster>/`: one mirror for all jobs, split by job.

A view has the state of etcd at `revision`, never a part of a revision. During an outage it is old, but not wrong; after
a wipe it belongs to a new store. The informer only reads. Reports from agents are delivered in batches; after `flush`,
the effect of a write is visible as soon as possible. For a job over its etcd quota, only the spec and the excess are
visible.
"""

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import replace

from elasticjob_api.keys import ROOT
from elasticjob_api.rendezvous_view import RendezvousView
from elasticjob_etcd.errors import StoreReset
from elasticjob_etcd.interface import PagedEtcd
from elasticjob_etcd.mirror import Mirror
from elasticjob_operator.informers.batching import WatchBatcher
from elasticjob_operator.informers.etcd_usage import BUDGET, EtcdUsage
from elasticjob_operator.informers.filtered_etcd import FilteredEtcd
from elasticjob_operator.informers.rendezvous_store import ChangeKind, JobStore, ReportCallback, ignore_report
from elasticjob_operator.model import job_key
from elasticjob_operator.model.job_key import JobKey
from elasticjob_operator.policy.etcd.quota import EtcdQuota

log = logging.getLogger(__name__)


class RendezvousInformer:
    """The keys of all jobs in memory.

    `on_change` is called for each job that has changed, and `on_listed` after each new list. If only progress or
    samples have changed, `on_progress` is called instead of `on_change`, if there is one.

    `allowed` returns the quota of a job that was not reconciled yet. The records of all jobs may use `memory` bytes.
    """

    def __init__(
        self,
        etcd: PagedEtcd,
        cluster_id: str,
        *,
        on_change: Callable[[JobKey], None],
        on_listed: Callable[[], None],
        on_report: ReportCallback = ignore_report,
        on_progress: Callable[[JobKey], None] | None = None,
        allowed: Callable[[JobKey], EtcdQuota | None] = lambda _: None,
        memory: int = BUDGET,
    ) -> None:
        self._on_report = on_report
        self._cluster_id = cluster_id
        self._on_change = on_change
        self._on_progress = on_progress
        self._on_listed = on_listed
        self._usage = EtcdUsage(time.monotonic, allowed, budget=memory)
        self._batcher = WatchBatcher(time.monotonic)
        self._filtered_etcd = FilteredEtcd(etcd, self._usage, self._batcher)
        self._mirror = Mirror(
            self._filtered_etcd, f"{ROOT}/{cluster_id}/", empty_is_reset=True, on_change=self._changed
        )
        self._jobs: dict[JobKey, JobStore] = {}

    def flush(self) -> None:
        """End batching, because a write is expected soon."""
        self._batcher.flush()

    @property
    def listed(self) -> bool:
        """Whether etcd was listed, so that views are valid."""
        return self._mirror.revision > 0

    @property
    def store(self) -> int:
        """Number of the store; it grows with each wipe."""
        return self._mirror.store_resets

    @property
    def revision(self) -> int:
        """The revision of etcd that the views have."""
        return self._mirror.revision

    async def run(self) -> None:
        """Follow etcd until cancelled; raises errors that a retry cannot cure (`RequestRejected`)."""
        async with self._mirror as mirror:
            while True:
                try:
                    await mirror.wait_change(mirror.revision)
                except StoreReset as error:
                    log.warning("%s; slot maps are written again from the jobs' status and the pods", error)

    def view(self, key: JobKey) -> RendezvousView:
        """Return the view of one job as of `revision`."""
        known = self._jobs.get(key)
        view = known.view(self.revision) if known else RendezvousView(revision=self.revision)
        view = replace(view, empty=view.empty and not self._usage.has_keys(key))
        excess = self._usage.violation(key)
        return _quota_view(view, excess) if excess else view

    def allow(self, key: JobKey, quota: EtcdQuota) -> None:
        """Set the job's quota of etcd."""
        self._usage.allow(key, quota)

    def keys(self) -> set[JobKey]:
        """Return all jobs that have a key, including deleted ones."""
        return set(self._jobs) | self._usage.keys()

    def _changed(self) -> None:
        touched = self._filtered_etcd.drain_touched()
        changed = self._relist() if touched is None else self._update(touched)
        for key in self._usage.drain_over_quota():
            self._clear(key)
            changed[key] = ChangeKind.STATE
        for key, change in changed.items():
            if change is ChangeKind.STATE or self._on_progress is None:
                self._batcher.flush()
                self._on_change(key)
            else:
                self._on_progress(key)
        if touched is None:
            self._on_listed()
        else:
            self._batcher.count(len(touched))

    def _relist(self) -> dict[JobKey, ChangeKind]:
        before, self._jobs = dict.fromkeys(self._jobs, ChangeKind.STATE), {}
        return before | dict.fromkeys(self._update(self._mirror.items), ChangeKind.STATE)

    def _update(self, etcd_keys: Iterable[str]) -> dict[JobKey, ChangeKind]:
        changed: dict[JobKey, ChangeKind] = {}
        for etcd_key in etcd_keys:
            if (key := job_key.key_of_etcd_key(etcd_key)) is not None:
                change = self._set(key, etcd_key)
                changed[key] = min(change, changed.get(key, change), key=_BY_URGENCY.index)
        return changed

    def _set(self, key: JobKey, etcd_key: str) -> ChangeKind:
        known = self._jobs.get(key)
        if known is None:
            known = self._jobs[key] = JobStore(key.keys(self._cluster_id), self._on_report)
        known.most_workers = self._usage.allowance(key).workers
        change = ChangeKind.STATE
        if (kv := self._mirror.items.get(etcd_key)) is not None:
            change = known.put(kv)
            self._mirror.items[etcd_key] = replace(kv, value=b"")  # the decoded record replaces the bytes
        else:
            known.delete(etcd_key)
        if known.empty:
            del self._jobs[key]
        return change

    def _clear(self, key: JobKey) -> None:
        """Drop all keys of an expelled job but the spec, which names the installation of the keys."""
        known, keys = self._jobs.get(key), key.keys(self._cluster_id)
        for etcd_key in [each for each in self._mirror.items if each.startswith(keys.everything) and each != keys.spec]:
            del self._mirror.items[etcd_key]
            if known is not None:
                known.drop(etcd_key)


def _quota_view(view: RendezvousView, violation: str) -> RendezvousView:
    revision = view.spec_revision if view.spec else 0
    return RendezvousView(
        revision=view.revision, spec=view.spec, spec_revision=revision, empty=view.empty, quota_violation=violation
    )


_BY_URGENCY = tuple(ChangeKind)
"""The most urgent kind of change first."""

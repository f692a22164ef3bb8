"""The operator's view of `/elasticjob/<cluster>/`: one mirror for all jobs, split by job.

What it shows of a job is what etcd held at `revision`, never half of a revision. An outage makes it old, never
wrong; a wipe is seen as a new store. It reads only; the operator's writes go to etcd directly.
"""

import logging
from collections.abc import Callable, Iterable

from elasticjob_api.keys import ROOT
from elasticjob_etcd.errors import Wiped
from elasticjob_etcd.mirror import Mirror
from elasticjob_etcd.protocol import Etcd
from elasticjob_operator import jobkey
from elasticjob_operator.cluster.job_records import JobRecords, OnReport, ignore_report
from elasticjob_operator.cluster.tap import Tap
from elasticjob_operator.jobkey import JobKey
from elasticjob_operator.view import View

log = logging.getLogger(__name__)


class Rendezvous:
    """All jobs' keys in memory; `on_change` is told each job of which anything changed, `on_listed` a new list."""

    def __init__(
        self,
        etcd: Etcd,
        cluster_id: str,
        *,
        on_change: Callable[[JobKey], None],
        on_listed: Callable[[], None],
        on_report: OnReport = ignore_report,
    ) -> None:
        self._on_report = on_report
        self._cluster_id = cluster_id
        self._on_change = on_change
        self._on_listed = on_listed
        self._tap = Tap(etcd)
        self._mirror = Mirror(self._tap, f"{ROOT}/{cluster_id}/", on_change=self._changed)
        self._jobs: dict[JobKey, JobRecords] = {}

    @property
    def listed(self) -> bool:
        """There is something to plan from."""
        return self._mirror.revision > 0

    @property
    def store(self) -> int:
        """Which store this is: it counts the wipes."""
        return self._mirror.wiped

    @property
    def revision(self) -> int:
        """Everything up to here has been seen."""
        return self._mirror.revision

    async def run(self) -> None:
        """Follow etcd until cancelled; raises what cannot heal (`Refused`)."""
        async with self._mirror as mirror:
            while True:
                try:
                    await mirror.wait_change(mirror.revision)
                except Wiped as error:
                    log.warning("%s; maps are written again from the jobs' status and the pods", error)

    def view(self, key: JobKey) -> View:
        """One job as of `revision`."""
        known = self._jobs.get(key)
        return known.view(self.revision) if known else View(revision=self.revision)

    def keys(self) -> set[JobKey]:
        """Every job that has a key, deleted ones too."""
        return set(self._jobs)

    def _changed(self) -> None:
        touched = self._tap.take()
        changed = self._relist() if touched is None else self._update(touched)
        for key in changed:
            self._on_change(key)
        if touched is None:
            self._on_listed()

    def _relist(self) -> set[JobKey]:
        before, self._jobs = set(self._jobs), {}
        return before | self._update(self._mirror.items)

    def _update(self, etcd_keys: Iterable[str]) -> set[JobKey]:
        changed = set()
        for etcd_key in etcd_keys:
            if (key := jobkey.of_etcd_key(etcd_key)) is not None:
                self._set(key, etcd_key)
                changed.add(key)
        return changed

    def _set(self, key: JobKey, etcd_key: str) -> None:
        known = self._jobs.setdefault(key, JobRecords(key.keys(self._cluster_id), self._on_report))
        if (kv := self._mirror.items.get(etcd_key)) is not None:
            known.put(kv)
        else:
            known.drop(etcd_key)
        if known.empty:
            del self._jobs[key]

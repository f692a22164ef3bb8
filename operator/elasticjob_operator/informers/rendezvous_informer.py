"""The operator's view of `/elasticjob/<cluster>/`: one mirror for all jobs, split by job.

What it shows of a job is what etcd held at `revision`, never half of a revision. An outage makes it old, never
wrong; a wipe is seen as a new store. It reads only. Writes through its `etcd` are visible immediately; reports from
agents are delivered in batches. For a job over its etcd quota only the spec and the excess are visible.
"""

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import replace

from elasticjob_api.keys import ROOT
from elasticjob_etcd.errors import StoreReset
from elasticjob_etcd.interface import Etcd, PagedEtcd
from elasticjob_etcd.mirror import Mirror
from elasticjob_operator.informers.batching import Gathering
from elasticjob_operator.informers.etcd_usage import BUDGET, Footprints
from elasticjob_operator.informers.filtered_etcd import Tap
from elasticjob_operator.informers.rendezvous_store import JobRecords, News, OnReport, ignore_report
from elasticjob_operator.model import job_key
from elasticjob_operator.model.job_key import JobKey
from elasticjob_operator.model.rendezvous_view import View
from elasticjob_operator.policy.etcd.quota import Allowance

log = logging.getLogger(__name__)


class Rendezvous:
    """All jobs' keys in memory.

    `on_change` is told each job of which anything changed, `on_listed` a new list; of a job whose agents have told
    progress or samples and nothing else `on_soft_change` is told instead, if there is one.

    `allowed` is asked what a job may take that no turn has looked at. The records of all jobs may take `memory` bytes.
    """

    def __init__(
        self,
        etcd: PagedEtcd,
        cluster_id: str,
        *,
        on_change: Callable[[JobKey], None],
        on_listed: Callable[[], None],
        on_report: OnReport = ignore_report,
        on_soft_change: Callable[[JobKey], None] | None = None,
        allowed: Callable[[JobKey], Allowance | None] = lambda _: None,
        memory: int = BUDGET,
    ) -> None:
        self._on_report = on_report
        self._cluster_id = cluster_id
        self._on_change = on_change
        self._on_soft_change = on_soft_change
        self._on_listed = on_listed
        self._footprints = Footprints(time.monotonic, allowed, budget=memory)
        self._gathering = Gathering(time.monotonic)
        self._tap = Tap(etcd, self._footprints, self._gathering)
        self._mirror = Mirror(self._tap, f"{ROOT}/{cluster_id}/", empty_is_reset=True, on_change=self._changed)
        self._jobs: dict[JobKey, JobRecords] = {}

    @property
    def etcd(self) -> Etcd:
        """For whoever writes: it is seen here as soon as may be."""
        return self._tap

    def hurry(self) -> None:
        """Something will be written soon."""
        self._gathering.hurry()

    @property
    def listed(self) -> bool:
        """There is something to plan from."""
        return self._mirror.revision > 0

    @property
    def store(self) -> int:
        """Which store this is: it counts the wipes."""
        return self._mirror.store_reset

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
                except StoreReset as error:
                    log.warning("%s; maps are written again from the jobs' status and the pods", error)

    def view(self, key: JobKey) -> View:
        """One job as of `revision`."""
        known = self._jobs.get(key)
        view = known.view(self.revision) if known else View(revision=self.revision)
        view = replace(view, empty=view.empty and not self._footprints.has_keys(key))
        excess = self._footprints.excess(key)
        return _distrusted(view, excess) if excess else view

    def allow(self, key: JobKey, allowance: Allowance) -> None:
        """How much of etcd the job may take."""
        self._footprints.allow(key, allowance)

    def keys(self) -> set[JobKey]:
        """Every job that has a key, deleted ones too."""
        return set(self._jobs) | self._footprints.keys()

    def _changed(self) -> None:
        touched = self._tap.take()
        changed = self._relist() if touched is None else self._update(touched)
        for key in self._footprints.take_expelled():
            self._clear(key)
            changed[key] = News.STATE
        for key, news in changed.items():
            if news is News.STATE or self._on_soft_change is None:
                self._gathering.hurry()
                self._on_change(key)
            else:
                self._on_soft_change(key)
        if touched is None:
            self._on_listed()
        else:
            self._gathering.soft(len(touched))

    def _relist(self) -> dict[JobKey, News]:
        before, self._jobs = dict.fromkeys(self._jobs, News.STATE), {}
        return before | dict.fromkeys(self._update(self._mirror.items), News.STATE)

    def _update(self, etcd_keys: Iterable[str]) -> dict[JobKey, News]:
        changed: dict[JobKey, News] = {}
        for etcd_key in etcd_keys:
            if (key := job_key.of_etcd_key(etcd_key)) is not None:
                news = self._set(key, etcd_key)
                changed[key] = min(news, changed.get(key, news), key=_WORTH.index)
        return changed

    def _set(self, key: JobKey, etcd_key: str) -> News:
        known = self._jobs.get(key)
        if known is None:
            known = self._jobs[key] = JobRecords(key.keys(self._cluster_id), self._on_report)
        known.most_workers = self._footprints.allowance(key).workers
        news = News.STATE
        if (kv := self._mirror.items.get(etcd_key)) is not None:
            news = known.put(kv)
            if not known.compares(etcd_key):
                self._mirror.items[etcd_key] = replace(kv, value=b"")  # it is a record now
        else:
            known.drop(etcd_key)
        if known.empty:
            del self._jobs[key]
        return news

    def _clear(self, key: JobKey) -> None:
        """Keep the spec of an expelled job and nothing else: it says whose keys these are."""
        known, keys = self._jobs.get(key), key.keys(self._cluster_id)
        for etcd_key in [each for each in self._mirror.items if each.startswith(keys.all) and each != keys.spec]:
            del self._mirror.items[etcd_key]
            if known is not None:
                known.drop(etcd_key)


def _distrusted(view: View, excess: str) -> View:
    revision = view.spec_revision if view.spec else 0
    return View(revision=view.revision, spec=view.spec, spec_revision=revision, empty=view.empty, excess=excess)


_WORTH = tuple(News)
"""The one that cannot wait first."""

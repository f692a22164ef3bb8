"""The newest state of a job, fetched by threads, so that a view never waits for the API server."""

import contextlib
import math
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from elasticjob import Cluster, ElasticJobError
from elasticjob.streams import CancelToken
from elasticjob.watch import changes
from elasticjob_api import constants
from elasticjob_cli.target import history_entries
from elasticjob_cli.views.job_history import HistoryEntry
from elasticjob_cli.views.usage import Usage, parse_pod_metrics

_EVENTS_EVERY_S = 1.0
_METRICS_EVERY_S = 10.0
_ENDED = (constants.Phase.SUCCEEDED, constants.Phase.FAILED)


class JobWatcher:
    """The newest state of a job; `changed` is set after each change."""

    def __init__(self, cluster: Cluster, job: Mapping[str, Any]) -> None:
        self._cluster = cluster
        self._events_s = -math.inf
        self._metrics_s = -math.inf
        self._changed = threading.Event()
        self.changed = threading.Event()
        self.job = job
        self.history_entries: Sequence[HistoryEntry] = ()
        self.usage: Mapping[str, Usage] = {}
        self.error: ElasticJobError | None = None
        self.deleted = False
        self.ended = False
        """Whether no change will follow."""

    def start(self) -> None:
        """Start the threads; they end with the process."""
        for work in (self._run, self._fetch_after_changes):
            threading.Thread(target=work, name="elasticjob-watch", daemon=True).start()

    def fetch(self) -> None:
        """Fetch events and metrics, unless the last fetch was too recent."""
        now_s = time.monotonic()
        if now_s - self._events_s >= _EVENTS_EVERY_S:
            self._events_s = now_s
            self.history_entries = list(history_entries(self._cluster, self.job))
        if now_s - self._metrics_s >= _METRICS_EVERY_S and not self._reports_usage():
            self._metrics_s = now_s
            self.usage = self._pod_metrics()

    def _reports_usage(self) -> bool:
        nodes = (self.job.get("status") or {}).get("nodes") or ()
        return any("cpuPercent" in node for node in nodes)

    def _pod_metrics(self) -> Mapping[str, Usage]:
        meta = self.job["metadata"]
        path = f"/apis/metrics.k8s.io/v1beta1/namespaces/{meta['namespace']}/pods"
        query = {"labelSelector": f"{constants.LABEL_JOB_UID}={meta['uid']}"}
        try:
            return parse_pod_metrics(self._cluster.request("GET", path, tried="read metrics of pods", query=query))
        except ElasticJobError:
            return {}  # without a metrics server, the view shows no usage

    def _fetch_after_changes(self) -> None:
        """Fetch events and metrics after each change of the job, and again a second later."""
        # The operator writes an event after the status that it belongs to.
        while not self.ended:
            self._changed.wait(_METRICS_EVERY_S)
            self._changed.clear()
            for pause_s in (_EVENTS_EVERY_S, 0.0):
                with contextlib.suppress(ElasticJobError):  # the thread that watches the job keeps the error
                    self.fetch()
                self.changed.set()
                time.sleep(pause_s)

    def _run(self) -> None:
        meta = self.job["metadata"]
        try:
            for found in changes(self._cluster, meta["namespace"], meta["name"], until=math.inf, stop=CancelToken()):
                if found is None or found["metadata"]["uid"] != meta["uid"]:
                    self.deleted = True
                    break
                self.job = found
                self._changed.set()
                self.changed.set()
                if (found.get("status") or {}).get("phase") in _ENDED:
                    break
            time.sleep(_EVENTS_EVERY_S)
            self._events_s = -math.inf
            self.fetch()
        except ElasticJobError as error:
            self.error = error
        self.ended = True
        self.changed.set()

"""One job and its changes: a read, then a watch from there, and so on; while the server is away, it is tried again.

No state is missed for long: each value is a whole job, not an event, and each new watch begins with a read.
"""

import math
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from elasticjob.cluster import Cluster, jobs_path
from elasticjob.errors import NotFound, Unreachable
from elasticjob.streams import CancelToken
from elasticjob_api.nesting import read_json

_WATCH_S = 300.0
"""Seconds after which the server ends a watch; then a new one begins."""
_PAUSES_S = (0.1, 0.2, 0.5, 1.0, 2.0)
"""Seconds between tries while the server is away; the last value repeats."""


def changes(
    cluster: Cluster, namespace: str, name: str, *, until: float, stop: CancelToken
) -> Iterator[dict[str, Any] | None]:
    """Yield the job now and after each change, until monotonic time `until` or `stop`; None as the last, if it is gone.

    The job is read once even after `until`. Raise ClusterError for an error that a new try does not cure, and
    Unreachable if the server was away at `until`.
    """
    failures = 0
    while True:
        try:
            found = cluster.request("GET", jobs_path(namespace, name), tried=f"get the job {name}")
        except NotFound:
            yield None
            return
        except Unreachable:
            if time.monotonic() >= until:
                raise
            failures += 1
        else:
            failures = 0
            yield found
            for each in _watch(cluster, found, until, stop):
                yield each
                if each is None:
                    return
            if time.monotonic() >= until:
                return
        pause_s = _PAUSES_S[min(failures, len(_PAUSES_S) - 1)]
        if stop.pause(min(pause_s, until - time.monotonic())):
            return


def _watch(cluster: Cluster, found: dict[str, Any], until: float, stop: CancelToken) -> Iterator[dict[str, Any] | None]:
    """Yield the changes after `found`, until the watch ends for any reason."""
    # The next read shows whether the end of the watch matters.
    meta = found["metadata"]
    left_s = min(until - time.monotonic(), _WATCH_S)
    if left_s <= 0:
        return
    query = {
        "watch": "true",
        "fieldSelector": f"metadata.name={meta['name']}",
        "resourceVersion": meta["resourceVersion"],
        "timeoutSeconds": math.ceil(left_s),
    }
    path, tried = jobs_path(meta["namespace"]), f"watch the job {meta['name']}"
    opened = cluster.lines(path, tried=tried, query=query, silence_s=left_s)
    with suppress(Unreachable), opened as lines, stop.attached(lines):
        for line in lines:
            event = read_json(line)
            if event["type"] == "ERROR":  # the version is too old: the next read begins again
                return
            yield None if event["type"] == "DELETED" else event["object"]
            if time.monotonic() >= until:
                return

"""One job as it changes: a read, then a watch from there, again and again; a server that is away is asked again.

Nothing is missed that matters: what is yielded is level, never an event, and each new watch begins with a read.
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
"""The server ends a watch after that, and it is begun anew."""
_PAUSES_S = (0.1, 0.2, 0.5, 1.0, 2.0)
"""Between two tries while the server is away; the last one for ever."""


def changes(
    cluster: Cluster, namespace: str, name: str, *, until: float, stop: CancelToken
) -> Iterator[dict[str, Any] | None]:
    """The job now and after each change, until the monotonic moment `until` or `stop`; None and the end when gone.

    It is looked at once even when the moment is over. Raises ClusterError for what asking again does not cure, and
    Unreachable if the server was away in that moment.
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
    """What follows on `found`, until the watch ends, for whatever reason: the next read tells whether it matters."""
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
            if event["type"] == "ERROR":  # the version is too old: the next read is a new beginning
                return
            yield None if event["type"] == "DELETED" else event["object"]
            if time.monotonic() >= until:
                return

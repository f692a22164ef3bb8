"""New log lines: a reader for every pod of the job, until the job has ended and all lines were read.

One thread watches the job and starts a reader for each new pod. After a broken connection, a reader continues from its
last line. All lines pass through one bounded buffer, so a slow caller slows the readers. The end of the iteration ends
all threads.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing, suppress

from elasticjob.cluster import pods_path
from elasticjob.errors import ElasticJobError, NotFound, Rejected, Unreachable
from elasticjob.logs import LogLine, Source, log_of, parse_lines
from elasticjob.rank_placement import Ranks, ranks_by_pod
from elasticjob.streams import CancelToken
from elasticjob_api.status import JobStatus

_BUFFER_LINES = 1000
"""Lines that may wait for a slow caller."""
_PAUSE_S = 0.5
"""Seconds before another try with a pod that has no log yet, or whose log ended early."""
_WHOLE_SECONDS = len("2026-01-01T00:00:00")
_ENDED = ("Succeeded", "Failed")


def follow_logs(
    source: Source, statuses: Callable[[CancelToken], Iterator[JobStatus]], *, rank: int | None, tail: int | None
) -> Iterator[LogLine]:
    """Yield the lines of one rank, in whichever pod it is, or of all pods."""
    with closing(_LogFollower(source, tail)) as following:
        following.begin(statuses)
        for line in following.lines():
            if rank in {None, line.rank}:
                yield line


class _LogFollower:
    """The state that the threads share; one condition guards all of it."""

    def __init__(self, source: Source, tail: int | None) -> None:
        self._source = source
        self._cluster = source.cluster
        self._namespace = source.namespace
        self._tail = tail
        self._stop = CancelToken()
        self._changed = threading.Condition()
        self._buffer: deque[LogLine] = deque()
        self._busy = 0
        self._pod_ranks: dict[str, Ranks | None] = {}
        self._started_pods: set[str] = set()
        self._last: dict[str, str] = {}
        """Pod → time of its last line; only the reader of a pod uses its entry."""
        self._finished = False
        self._error: ElasticJobError | None = None

    def begin(self, statuses: Callable[[CancelToken], Iterator[JobStatus]]) -> None:
        """Start the thread that watches the job."""
        self._start(lambda: self._watch_pods(statuses(self._stop)))

    def lines(self) -> Iterator[LogLine]:
        """Yield all lines until the last reader has ended; raise an error after which a thread could not continue."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._buffer or not self._busy or self._error)
                if self._error and not self._buffer:
                    raise self._error
                if not self._buffer:
                    return
                line = self._buffer.popleft()
                self._changed.notify_all()
            yield line

    def close(self) -> None:
        """Stop all threads, and return when they have ended."""
        self._stop.cancel()
        with self._changed:
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._busy)

    # --- threads --- ------------------------------------------------------------------------------------------

    def _start(self, work: Callable[[], None]) -> None:
        with self._changed:
            self._busy += 1
        threading.Thread(target=self._run, args=(work,), name="elasticjob-logs", daemon=True).start()

    def _run(self, work: Callable[[], None]) -> None:
        error = None
        try:
            work()
        except ElasticJobError as raised:
            error = raised
        finally:
            with self._changed:
                self._busy -= 1
                self._error = self._error or error
                self._changed.notify_all()

    def _watch_pods(self, statuses: Iterator[JobStatus]) -> None:
        for status in statuses:
            pod_ranks = ranks_by_pod(status)
            with self._changed:
                self._pod_ranks = pod_ranks
                new_pods = [pod for pod in pod_ranks if pod and pod not in self._started_pods]
                self._started_pods.update(new_pods)
            for pod in new_pods:
                self._start(lambda pod=pod: self._read(pod))  # type: ignore[misc]
        with self._changed:
            self._finished = True

    def _read(self, pod: str) -> None:
        while not self._stop.is_cancelled:
            with suppress(NotFound, Rejected, Unreachable):  # no pod or container yet, or the server or node is away
                self._read_new_lines(pod)
            if self._has_ended(pod) or self._stop.pause(_PAUSE_S):
                return

    def _read_new_lines(self, pod: str) -> None:
        """Read the lines after the last one."""
        # A request can begin only at a whole second, so some lines arrive twice and are left out.
        last = self._last.get(pod, "")
        tail = None if last else self._tail
        since = last[:_WHOLE_SECONDS] + "Z" if last else ""
        container = self._source.container
        opened = log_of(self._cluster, self._namespace, pod, container=container, follow=True, tail=tail, since=since)
        with opened as lines, self._stop.attached(lines):
            for line in parse_lines(lines, pod, lambda: self._pod_ranks.get(pod)):
                if line.time > last:
                    self._last[pod] = line.time
                    self._put(line)

    def _has_ended(self, pod: str) -> bool:
        try:
            found = self._cluster.request("GET", pods_path(self._namespace, pod), tried=f"get the pod {pod}")
        except NotFound:
            return self._finished or pod not in self._pod_ranks  # a pod is in the status before it is created
        except Unreachable:
            return False
        return (found.get("status") or {}).get("phase") in _ENDED

    def _put(self, line: LogLine) -> None:
        with self._changed:
            self._changed.wait_for(lambda: len(self._buffer) < _BUFFER_LINES or self._stop.is_cancelled)
            self._buffer.append(line)
            self._changed.notify_all()

"""Logs as they come: a reader for every pod that the job has or gets, until the job has ended and all was read.

One thread watches the job and starts a reader for each pod it has not seen; every reader goes on after a broken
connection from the last line it has. Whoever iterates gets lines of all of them through one bounded buffer: who reads
slowly is waited for. Ending the iteration ends all threads.
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
"""Lines that wait for a slow reader."""
_PAUSE_S = 0.5
"""Before a pod that has no log yet, or whose log broke off, is asked again."""
_WHOLE_SECONDS = len("2026-01-01T00:00:00")
_ENDED = ("Succeeded", "Failed")


def follow_logs(
    source: Source, statuses: Callable[[CancelToken], Iterator[JobStatus]], *, rank: int | None, tail: int | None
) -> Iterator[LogLine]:
    """Lines of one rank, wherever it is, or of all pods."""
    with closing(_LogFollower(source, tail)) as following:
        following.begin(statuses)
        for line in following.lines():
            if rank in {None, line.rank}:
                yield line


class _LogFollower:
    """What the threads share. All of it is guarded by one condition."""

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
        """Pod → time of its last line; of each pod only its own reader asks."""
        self._finished = False
        self._error: ElasticJobError | None = None

    def begin(self, statuses: Callable[[CancelToken], Iterator[JobStatus]]) -> None:
        """Start the thread that watches the job."""
        self._start(lambda: self._watch_pods(statuses(self._stop)))

    def lines(self) -> Iterator[LogLine]:
        """All of them, until the last reader has ended; raises what a thread could not go on after."""
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
        """End all threads; they have ended when it returns."""
        self._stop.cancel()
        with self._changed:
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._busy)

    # --- in threads ------------------------------------------------------------------------------------------

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
            placed = ranks_by_pod(status)
            with self._changed:
                self._pod_ranks = placed
                fresh = [pod for pod in placed if pod and pod not in self._started_pods]
                self._started_pods.update(fresh)
            for pod in fresh:
                self._start(lambda pod=pod: self._read(pod))  # type: ignore[misc]
        with self._changed:
            self._finished = True

    def _read(self, pod: str) -> None:
        while not self._stop.is_cancelled:
            with suppress(NotFound, Rejected, Unreachable):  # no pod or container yet; or server or node is away
                self._read_on(pod)
            if self._has_ended(pod) or self._stop.pause(_PAUSE_S):
                return

    def _read_on(self, pod: str) -> None:
        """From the last line on; what is asked again is of whole seconds, so some come twice and are left out."""
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
            return self._finished or pod not in self._pod_ranks  # a pod is in the status before it is made
        except Unreachable:
            return False
        return (found.get("status") or {}).get("phase") in _ENDED

    def _put(self, line: LogLine) -> None:
        with self._changed:
            self._changed.wait_for(lambda: len(self._buffer) < _BUFFER_LINES or self._stop.is_cancelled)
            self._buffer.append(line)
            self._changed.notify_all()

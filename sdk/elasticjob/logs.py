"""The existing output of workers, read from their pods through the API server (`log_stream` reads new lines).

A pod that is being created or is gone has no log. That is an error only if it is true for all pods of the job. Lines
of one pod keep their order; lines of several pods are in order of time.
"""

import heapq
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial

from elasticjob.cluster import Cluster, pods_path
from elasticjob.errors import NoLogs, NotFound, Rejected
from elasticjob.rank_placement import Ranks, pods_of, rank_of_line
from elasticjob.streams import Lines
from elasticjob_api.status import JobStatus

SILENCE_S = 30.0
"""Seconds to wait for the next lines of an existing log."""


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of output."""

    pod: str
    rank: int | None
    """Global rank of its worker; None for a line of the agent."""
    text: str
    """The line without the prefix of its rank and without its line end."""
    time: str
    """The time when the node received it, as RFC 3339 with nanoseconds."""


@dataclass(frozen=True, slots=True)
class Source:
    """The source of a job's logs."""

    cluster: Cluster
    namespace: str
    container: str
    """The trainer: a pod with sidecars has several containers, and the API server would not choose one."""


def read_logs(source: Source, name: str, status: JobStatus, *, rank: int | None, tail: int | None) -> Iterator[LogLine]:
    """Return the existing lines; raise NoLogs if no pod has the rank, or none of its pods has a log."""
    pods = {pod: ranks for pod, ranks in pods_of(status, name, rank).items() if pod}
    if not pods:
        raise NoLogs(f"no log of the job {name}: it has no pods at present")
    if rank is None or tail is None:
        return _merge_lines(source, pods, name, rank=rank, tail=tail)
    return _last_lines(_merge_lines(source, pods, name, rank=rank, tail=None), tail)  # a node cannot select ranks


def _last_lines(lines: Iterator[LogLine], tail: int) -> Iterator[LogLine]:
    yield from deque(lines, tail)


def _merge_lines(
    source: Source, pods: dict[str, Ranks | None], name: str, *, rank: int | None, tail: int | None
) -> Iterator[LogLine]:
    with ExitStack() as stack:
        streams = []
        reason = "its pods were deleted, and their logs with them"
        for pod in pods:
            try:
                lines = stack.enter_context(pod_lines(source, pod, partial(pods.get, pod), tail=tail))
            except NotFound:
                continue
            except Rejected as error:  # mostly: the container does not run yet
                reason = str(error)
            else:
                streams.append(lines)
        if not streams:
            raise NoLogs(f"no log of the job {name}: {reason}")
        for line in heapq.merge(*streams, key=lambda line: line.time):
            if rank in {None, line.rank}:
                yield line


@contextmanager
def pod_lines(
    source: Source, pod: str, ranks: Callable[[], Ranks | None], *, tail: int | None = None
) -> Iterator[Iterator[LogLine]]:
    """Read the existing log of one pod; raise NotFound or Rejected if the pod has none."""
    with log_of(source.cluster, source.namespace, pod, container=source.container, tail=tail) as lines:
        yield parse_lines(lines, pod, ranks)


def log_of(
    cluster: Cluster,
    namespace: str,
    pod: str,
    *,
    container: str = "",
    follow: bool = False,
    tail: int | None = None,
    since: str = "",
) -> AbstractContextManager[Lines]:
    """Return the lines of one pod, each with its time in front; `since` has whole seconds.

    Without a container the pod must have only one; otherwise the request is Rejected.
    """
    query: dict[str, str | int] = {"timestamps": "true"}
    if container:
        query["container"] = container
    if follow:
        query["follow"] = "true"
    if tail is not None:
        query["tailLines"] = tail
    if since:
        query["sinceTime"] = since
    path, silence_s = f"{pods_path(namespace, pod)}/log", None if follow else SILENCE_S
    return cluster.lines(path, tried=f"read the log of the pod {pod}", query=query, silence_s=silence_s)


def parse_lines(lines: Lines, pod: str, ranks: Callable[[], Ranks | None]) -> Iterator[LogLine]:
    """Yield the lines as records; `ranks` is called for each line, since they change from round to round."""
    for line in lines:
        time, _, text = line.decode(errors="replace").partition(" ")
        rank, bare = rank_of_line(text, ranks())
        yield LogLine(pod=pod, rank=rank, text=bare, time=time)

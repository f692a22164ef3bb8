"""What workers wrote, read from their pods through the API server, as it is now (`following` goes on from there).

A pod that is being made, or gone, has no log: that is no error of a job's log, which is made of many pods, unless it
is so of all of them. Lines of one pod keep their order; those of several are put in order of time.
"""

import heapq
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from functools import partial

from elasticjob.cluster import Cluster, pods_path
from elasticjob.errors import NoLogs, NotFound, Rejected
from elasticjob.rank_placement import Ranks, pods_of, rank_of_line
from elasticjob.streams import Lines
from elasticjob_api.status import JobStatus

SILENCE_S = 30.0
"""For the next lines of a log that is there already."""


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line."""

    pod: str
    rank: int | None
    """Global rank of who wrote it; None: the agent."""
    text: str
    """Without the mark of its rank and without its end."""
    time: str
    """When the node took it, RFC 3339 with nanoseconds."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where the logs of a job are."""

    cluster: Cluster
    namespace: str
    container: str
    """The one that trains; a pod with sidecars has several, and the API server would not choose."""


def read_logs(source: Source, name: str, status: JobStatus, *, rank: int | None, tail: int | None) -> Iterator[LogLine]:
    """What is there now; raises NoLogs when no pod has the rank, or none that is asked for a log."""
    pods = {pod: ranks for pod, ranks in pods_of(status, name, rank).items() if pod}
    if not pods:
        raise NoLogs(f"no log of the job {name}: it has no pods now")
    if rank is None or tail is None:
        return _merge_lines(source, pods, name, rank=rank, tail=tail)
    return _last_lines(_merge_lines(source, pods, name, rank=rank, tail=None), tail)  # the node does not know ranks


def _last_lines(lines: Iterator[LogLine], tail: int) -> Iterator[LogLine]:
    yield from deque(lines, tail)


def _merge_lines(
    source: Source, pods: dict[str, Ranks | None], name: str, *, rank: int | None, tail: int | None
) -> Iterator[LogLine]:
    with ExitStack() as stack:
        streams = []
        why = "its pods are gone, and their logs with them"
        for pod in pods:
            try:
                lines = stack.enter_context(
                    log_of(source.cluster, source.namespace, pod, container=source.container, tail=tail)
                )
            except NotFound:
                continue
            except Rejected as error:  # mostly not yet a container
                why = str(error)
            else:
                streams.append(parse_lines(lines, pod, partial(pods.get, pod)))
        if not streams:
            raise NoLogs(f"no log of the job {name}: {why}")
        for line in heapq.merge(*streams, key=lambda line: line.time):
            if rank in {None, line.rank}:
                yield line


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
    """The lines of one pod, each with its time before it; `since` is to the second.

    Without a container the pod's only one is meant; one with several is Rejected.
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
    """Lines as records; `ranks` are asked for at each line, since they change from round to round."""
    for line in lines:
        time, _, text = line.decode(errors="replace").partition(" ")
        rank, bare = rank_of_line(text, ranks())
        yield LogLine(pod=pod, rank=rank, text=bare, time=time)

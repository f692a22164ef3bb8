"""The target of a command: a job of a cluster with its events, or the folder of a run.

A folder with a `job.yaml` is the folder of a run; any other text is the name of a job.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elasticjob_cli.cluster_options import connect, get_job
from elasticjob_cli.errors import InvalidManifest
from elasticjob_cli.local.run_dir import RunDir
from elasticjob_cli.views.job_history import HistoryEntry
from elasticjob_cli.views.text import parse_time
from elasticjob_cli.yaml_json import read_yaml

if TYPE_CHECKING:
    from elasticjob import Cluster


@dataclass(frozen=True, slots=True)
class JobTarget:
    """One job and its events, as read."""

    job: Mapping[str, Any]
    history_entries: Sequence[HistoryEntry]


def find(arguments: argparse.Namespace) -> JobTarget:
    """Return the job or the run that the argument names."""
    if (folder := run_folder(arguments.job)) is not None:
        return recorded(folder)
    cluster = connect(arguments)
    job = get_job(arguments, cluster).manifest
    return JobTarget(job, list(history_entries(cluster, job)))


def run_folder(text: str) -> Path | None:
    """Return the folder of a run if the text names one, else None; raise InvalidManifest for another path."""
    path = Path(text)
    if (path / "job.yaml").is_file():
        return path
    if path.is_dir() or text.startswith(("./", "../", "/", "runs/")):
        raise InvalidManifest(
            f"{text}: is not the folder of a run: it has no job.yaml; give a folder in runs/, or the name of a job"
        )
    return None


def recorded(folder: Path) -> JobTarget:
    """Return the job and the events that the folder of a run contains."""
    job = read_yaml(str(folder / "job.yaml"))
    if not isinstance(job, Mapping):
        raise InvalidManifest(f"{folder / 'job.yaml'}: is not an ElasticJob")
    from elasticjob_cli.local.run_events import read_events  # noqa: PLC0415  # only a run needs it

    return JobTarget(job, list(read_events(RunDir(folder).events)))


def history_entries(cluster: "Cluster", job: Mapping[str, Any]) -> Iterator[HistoryEntry]:
    """Yield the events of a job; none without the permission to read events."""
    from elasticjob.errors import Forbidden  # noqa: PLC0415  # with the cluster

    meta = job["metadata"]
    path = f"/api/v1/namespaces/{meta['namespace']}/events"
    query = {"fieldSelector": f"involvedObject.uid={meta['uid']}"}
    try:
        found = cluster.request("GET", path, tried=f"read the events of {meta['name']}", query=query)
    except Forbidden:
        return
    yield from moments_of_events(found.get("items") or ())


def moments_of_events(events: Sequence[Mapping[str, Any]]) -> Iterator[HistoryEntry]:
    """Yield entries for events of the API server, in the order in which they were written."""
    # Their times are whole seconds; the resource version orders those of the same second.
    for event in sorted(events, key=_version):
        at_s = parse_time(event.get("lastTimestamp") or event.get("eventTime") or event.get("firstTimestamp"))
        if at_s is not None:
            warning = event.get("type") == "Warning"
            count = int(event.get("count") or 1)
            yield HistoryEntry(at_s, str(event.get("reason")), str(event.get("message")), warning=warning, count=count)


def _version(event: Mapping[str, Any]) -> int:
    text = str((event.get("metadata") or {}).get("resourceVersion") or "")
    return int(text) if text.isdecimal() else 0

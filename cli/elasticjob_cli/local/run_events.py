"""The operator's events of a run, in a file of the run's folder: one JSON object a line.

A line that cannot be read is left out: another version wrote it, or the disk was full.
"""

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from elasticjob_cli.views.job_history import HistoryEntry
from elasticjob_operator.cluster.in_memory import InMemoryCluster
from elasticjob_operator.model.cluster_interface import Change, Object, Resource


async def save_events(cluster: InMemoryCluster, path: Path, *, clock: Callable[[], float] = time.time) -> None:
    """Append each event to the file, until cancelled."""
    async for event in cluster.watch(Resource.EVENT):
        if event.change in {Change.LISTED, Change.ADDED, Change.MODIFIED}:
            with contextlib.suppress(OSError), path.open("a", encoding="utf-8") as file:
                file.write(f"{_line(event.object, clock())}\n")


def _line(event: Object, now_s: float) -> str:
    return json.dumps(
        {
            "time": round(now_s, 3),
            "reason": str(event.get("reason", "")),
            "message": str(event.get("message", "")),
            "warning": event.get("type") == "Warning",
        }
    )


def read_events(path: Path) -> Iterator[HistoryEntry]:
    """Yield the events in the file, in the order in which they were written; none without the file."""
    if path.is_file():
        yield from filter(None, map(_entry, path.read_text(encoding="utf-8", errors="replace").splitlines()))


def _entry(line: str) -> HistoryEntry | None:
    try:
        fields = json.loads(line)
        return HistoryEntry(
            float(fields["time"]), str(fields["reason"]), str(fields["message"]), warning=fields["warning"] is True
        )
    except (ValueError, TypeError, KeyError):
        return None

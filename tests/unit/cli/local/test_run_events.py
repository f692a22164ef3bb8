"""The operator's events in the folder of a run."""

import asyncio
from pathlib import Path

from elasticjob_cli.local.run_events import read_events, save_events
from elasticjob_cli.views.job_history import HistoryEntry
from elasticjob_operator.cluster.in_memory import InMemoryCluster
from elasticjob_operator.model.cluster_interface import Resource
from testing.waiting import aeventually


async def test_each_event_is_kept_with_its_time(tmp_path: Path) -> None:
    cluster, path = InMemoryCluster(), tmp_path / "events.jsonl"
    saving = asyncio.create_task(save_events(cluster, path, clock=lambda: 7.5))
    for name, kind in (("a", "Normal"), ("b", "Warning")):
        body = {"metadata": {"name": name}, "reason": "Created", "message": f"{name}\nnext", "type": kind}
        await cluster.create(Resource.EVENT, body)
    await aeventually(lambda: len(list(read_events(path))) == 2)
    saving.cancel()
    await asyncio.wait([saving])
    assert list(read_events(path)) == [
        HistoryEntry(7.5, "Created", "a\nnext"),
        HistoryEntry(7.5, "Created", "b\nnext", warning=True),
    ]


def test_lines_of_another_form_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    assert list(read_events(path)) == []
    path.write_text('{"time": 1, "reason": "R", "message": "m", "warning": false, "new": 1}\n[]\n{"time": 2}\ntorn')
    assert list(read_events(path)) == [HistoryEntry(1.0, "R", "m")]

"""A shared directory that cannot be used at first is listed again, whatever the node lacks meanwhile."""

import contextlib
from pathlib import Path

import pytest

from elasticjob_agent.keep.keeper import persistence as persistence_module
from elasticjob_agent.keep.keeper.messages import OpenRequest
from elasticjob_agent.keep.keeper.persistence import Persistence
from elasticjob_agent.keep.keeper.step_keeper import StepKeeper
from testing.waiting import eventually
from tests.integration.keep.keepers import JOB, RUN
from tests.integration.keep.no_threads import no_thread_left


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """List again soon."""
    monkeypatch.setattr(persistence_module, "_LIST_AGAIN_S", 0.1)


def test_a_directory_is_listed_again_by_a_node_without_a_thread_left(keep_dir: Path, tmp_path: Path) -> None:
    late = tmp_path / "late"
    late.write_text("no directory")
    opened = OpenRequest(str(keep_dir), JOB, RUN, persist_to=str(late))
    updates: list[object] = []
    with contextlib.closing(StepKeeper(opened, report=print, on_change=lambda: None)) as steps:
        persistence = Persistence(opened, steps, report=print, send=updates.append)
        with no_thread_left():
            eventually(lambda: persistence.news().has_failed, what="the error")
            late.unlink()
            late.mkdir()
            eventually(lambda: not persistence.news().has_failed, what="the directory is used")

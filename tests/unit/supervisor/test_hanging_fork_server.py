"""A fork server that hangs is replaced only if that ends no worker that runs."""

from pathlib import Path

import pytest

from elasticjob_agent.supervisor.child import Child
from elasticjob_agent.supervisor.hanging_fork_server import is_replaceable
from elasticjob_agent.supervisor.process_types import Command, FileSink


def _child(mark: str) -> Child:
    sink = FileSink(Path("log"))
    child = Child(Command(name="rank 0", argv=("x",), env={}, cwd=None, stdout=sink, stderr=sink), number=1, pumps=[])
    if mark:
        setattr(child, mark, True)
    return child


@pytest.mark.parametrize(
    ("marks", "expected"),
    [
        ([], True),
        (["ended", "wedged", "is_zygote"], True),
        ([""], False),
        (["is_zygote", "is_warm"], False),
    ],
)
async def test_a_fork_server_is_replaceable_if_no_worker_runs(marks: list[str], *, expected: bool) -> None:
    assert is_replaceable(map(_child, marks)) is expected

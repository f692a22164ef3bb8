"""The script of docs/keep.md publishes a whole step, also where each worker of a node runs it."""

import os
import shutil
import textwrap
from pathlib import Path
from types import SimpleNamespace

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "keep.md"
FIRST_LINE = '    keep = os.environ.get("ELASTICJOB_KEEP")\n'
ONE_WORKER = ' and os.environ["LOCAL_RANK"] == "0"'


def script() -> str:
    """Return the lines that publish a step."""
    _, begin, rest = PAGE.read_text().partition(FIRST_LINE)
    return textwrap.dedent(begin + rest.partition("\n\n")[0])


def test_a_second_worker_of_a_node_leaves_the_draft_of_the_first_one_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert ONE_WORKER in script()
    forgetful = script().replace(ONE_WORKER, "")
    monkeypatch.setenv("ELASTICJOB_KEEP", str(tmp_path))

    def publish(rank: str) -> None:
        monkeypatch.setenv("RANK", rank)
        exec(forgetful, {"os": os, "shutil": shutil, "torch": SimpleNamespace(save=save), "step": 50, "state": b"all"})

    def save(state: bytes, path: str) -> None:
        Path(path).write_bytes(state)
        if os.environ["RANK"] == "0":
            publish("1")

    publish("0")
    assert {path.relative_to(tmp_path): path.read_bytes() for path in tmp_path.glob("*/*")} == {
        Path("step-50", "state.pt"): b"all"
    }

"""The recoveries of a trace file, in microseconds."""

import json
from pathlib import Path

import pytest

from elasticjob_cli.traces import NoTrace, read_trace

POINTS = [
    (100, "a", 1, "started"),
    (900, "a", 1, "detected"),
    (950, "a", 2, "proposed"),
    (960, "a", 2, "saw forming"),
    (990, "a", 2, "stopped"),
    (1000, "a", 2, "ready"),
    (1100, "a", 2, "saw active"),
    (1300, "a", 2, "started"),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of a run."""
    names = ("t_us", "agent", "round", "point")
    lines = [json.dumps(dict(zip(names, point, strict=True))) for point in POINTS]
    (tmp_path / "trace.jsonl").write_text("\n".join(lines) + "\ntorn")
    return tmp_path


def test_every_recovery_is_shown_with_its_steps(folder: Path) -> None:
    text = read_trace(str(folder), None)
    assert "round 1:" in text
    assert "round 2: 400 µs" in text
    assert "saw forming" not in text


def test_one_recovery_is_shown_point_by_point(folder: Path) -> None:
    text = read_trace(str(folder / "trace.jsonl"), 2)
    assert "round 1:" not in text
    assert "60  a: saw forming" in text


@pytest.mark.parametrize(
    ("where", "number", "words"), [(".", 9, "has no round 9; its rounds: 1, 2"), ("x", 1, "there is no trace")]
)
def test_a_missing_trace_is_reported_in_a_sentence(folder: Path, where: str, number: int, words: str) -> None:
    with pytest.raises(NoTrace, match=words):
        read_trace(str(folder / where), number)

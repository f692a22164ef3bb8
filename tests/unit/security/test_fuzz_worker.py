"""Random input of a worker to its agent: error files, progress, log lines. All of it is bounded, none fatal."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from elasticjob_agent.supervisor.line_prefixer import ConsoleText, LinePrefixer
from elasticjob_agent.workers.error_file import TAIL_BYTES, StderrTail, read_error_file
from elasticjob_agent.workers.error_message import MAX_CHARACTERS, error_line, traceback_tail
from elasticjob_agent.workers.progress import parse_progress
from elasticjob_api import records
from elasticjob_api.records import NodeSamples
from testing.mutations import NOT_FINITE, VALUES, mutate

TOLD = {"message": {"message": "boom", "extraInfo": {"py_callstack": "Traceback …", "timestamp": "1700000000.5"}}}
PROGRESS = {"step": 3, "total": 10, "metrics": {"loss": 0.5, "deep": {"a": [1, "b"]}}, "alive": True}
MOST_REPORT_BYTES = 24 * 1024
"""Of a report without workers, as docs/security.md counts it."""

once = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("worker") / "error.json"


def require_bounded(path: Path, content: bytes) -> None:
    """The error file is read as a short text, or as none."""
    path.write_bytes(content)
    found = read_error_file(path)
    assert len(found.message) <= 1024
    assert 0 <= found.time_ns < 2**63


@once
@given(content=st.binary(max_size=2000))
def test_any_bytes_in_an_error_file(file: Path, content: bytes) -> None:
    require_bounded(file, content)


@once
@given(rng=st.randoms(use_true_random=False), times=st.integers(1, 3))
def test_any_json_in_an_error_file(file: Path, rng: random.Random, times: int) -> None:
    value = mutate(TOLD, rng, times=times, values=(*VALUES, *NOT_FINITE))
    require_bounded(file, json.dumps(value).encode())


def require_small(line: bytes) -> None:
    """The parsed part of a line of progress fits into the samples."""
    found = parse_progress(line)
    samples = records.encode(NodeSamples(round=1, progress=found))
    assert len(samples) <= MOST_REPORT_BYTES
    assert records.decode(NodeSamples, samples).progress == found


@once
@given(line=st.binary(max_size=5000))
def test_any_bytes_as_progress(line: bytes) -> None:
    require_small(line)


@once
@given(rng=st.randoms(use_true_random=False), times=st.integers(1, 3), as_ascii=st.booleans())
def test_any_json_as_progress(rng: random.Random, times: int, *, as_ascii: bool) -> None:
    value = mutate(PROGRESS, rng, times=times, values=(*VALUES, *NOT_FINITE))
    require_small(json.dumps(value, ensure_ascii=as_ascii).encode(errors="surrogatepass"))


@once
@given(metrics=st.dictionaries(st.text(max_size=200), st.lists(st.text(max_size=200), max_size=3), max_size=40))
def test_metrics_of_odd_characters_as_progress(metrics: dict[str, Any]) -> None:
    require_small(json.dumps({"metrics": metrics}, ensure_ascii=False).encode(errors="surrogatepass"))


@once
@given(pieces=st.lists(st.binary(max_size=300), max_size=20))
def test_any_bytes_as_log_lines(pieces: list[bytes]) -> None:
    """They come out as text, each line behind its prefix and nothing else in front of one; the end is kept, cut."""
    text, lines, tail = ConsoleText(), LinePrefixer(b"[rank0]: "), StderrTail(b"[rank0]: ")
    shown = b"".join(lines.feed(text.feed(piece)) for piece in pieces) + lines.feed(text.flush()) + lines.flush()
    assert all(line.startswith(b"[rank0]: ") for line in shown.split(b"\n")[:-1])
    assert b"\r" not in shown
    shown.decode()
    tail.add(shown)
    assert len(tail.text.encode()) <= TAIL_BYTES
    assert len(error_line(tail.text)) <= MAX_CHARACTERS
    traceback_tail(tail.text)

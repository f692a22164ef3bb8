"""The example's progress lines never disturb the training, whatever the reader does."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from progress import Progress


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    path = tmp_path / "progress"
    os.mkfifo(path)
    return path


@pytest.fixture
def progress(fifo: Path) -> Iterator[Progress]:
    writer = Progress(str(fifo))
    yield writer
    writer.close()


def open_reader(fifo: Path) -> int:
    return os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)


def test_a_line_has_step_total_and_metrics(fifo: Path, progress: Progress) -> None:
    reader = open_reader(fifo)
    progress.report(15, 90, loss="0.123", accuracy="0.95")
    found = os.read(reader, 4096)
    os.close(reader)
    assert found == b'{"step": 15, "total": 90, "metrics": {"loss": "0.123", "accuracy": "0.95"}}\n'


def test_a_reader_may_come_later_and_come_back(fifo: Path, progress: Progress) -> None:
    progress.report(1, 9)
    for step in (2, 3):
        reader = open_reader(fifo)
        progress.report(step, 9)
        assert f'"step": {step}'.encode() in os.read(reader, 4096)
        os.close(reader)
        progress.report(step, 9)


def test_a_reader_that_is_too_slow_misses_lines_and_gets_no_torn_one(fifo: Path, progress: Progress) -> None:
    reader = open_reader(fifo)
    for step in range(5000):
        progress.report(step, 5000, loss="0.123456789")
    found = os.read(reader, 1 << 20).splitlines()
    os.close(reader)
    assert 100 < len(found) < 5000
    assert {line[-2:] for line in found} == {b"}}"}


@pytest.mark.parametrize("path", [None, "/no/such/fifo"])
def test_without_a_fifo_nothing_happens(path: str | None) -> None:
    writer = Progress(path)
    writer.report(1, 2)
    writer.close()

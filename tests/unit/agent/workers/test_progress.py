"""Progress that is reported through a FIFO: valid lines count, others are dropped, and none harms the run."""

import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from elasticjob_agent.workers.progress import ProgressFifo, parse_progress
from elasticjob_api.records import Progress
from testing.waiting import aeventually


@pytest.mark.parametrize(
    ("line", "progress"),
    [
        pytest.param(b'{"step": 3, "total": 10}', Progress(3, 10), id="a step of a total"),
        pytest.param(b"{}", Progress(), id="no field"),
        pytest.param(b'{"metrics": {"loss": 0.5, "name": "a"}}', Progress(metrics={"loss": "0.5", "name": "a"}),
                     id="metrics are text"),
        pytest.param(b'{"step": "3", "total": 2.5, "metrics": [1]}', Progress(), id="wrong types are left out"),
        pytest.param(b'{"step": true, "total": -1}', Progress(), id="true and negative numbers are left out"),
        pytest.param(b'{"step": 99999999999999999999}', Progress(), id="a number above 63 bits is left out"),
        pytest.param(b'{"colour": "blue"}', Progress(), id="unknown names are ignored"),
    ],
)  # fmt: skip
def test_line(line: bytes, progress: Progress) -> None:
    assert parse_progress(line) == progress


@pytest.mark.parametrize("line", [b"", b"step 3", b"[1]", b"3", b"null", b"\xff\xfe", b"[" * 4096, b'{"a": ' * 700])
def test_an_invalid_line_is_no_progress(line: bytes) -> None:
    assert parse_progress(line) is None


def test_a_flood_of_metrics_is_cut() -> None:
    progress = parse_progress(b'{"metrics": {' + b",".join(b'"%d": "%s"' % (i, b"x" * 9) for i in range(99)) + b"}}")
    assert progress is not None
    assert len(progress.metrics) == 32


@pytest.fixture
async def fifo(tmp_path: Path) -> AsyncIterator[ProgressFifo]:
    """A FIFO in a running loop."""
    made = ProgressFifo(tmp_path / "progress")
    yield made
    made.close()


def write(fifo: ProgressFifo, data: bytes) -> None:
    """Write to the FIFO as a worker does."""
    fd = os.open(fifo.path, os.O_WRONLY)
    os.write(fd, data)
    os.close(fd)


async def test_the_last_line_of_progress_counts(fifo: ProgressFifo) -> None:
    write(fifo, b'{"step": 1}\nnonsense\n{"step": 2}\n')
    await aeventually(lambda: fifo.last == Progress(2))


async def test_a_line_in_two_pieces_is_one_line(fifo: ProgressFifo) -> None:
    write(fifo, b'{"step"')
    write(fifo, b": 7}\n")
    await aeventually(lambda: fifo.last == Progress(7))


async def test_writers_come_and_go(fifo: ProgressFifo) -> None:
    for step in range(3):
        write(fifo, b'{"step": %d}\n' % step)
        await aeventually(lambda step=step: fifo.last == Progress(step))


async def test_an_endless_line_is_dropped_and_the_next_one_counts(fifo: ProgressFifo) -> None:
    write(fifo, b"x" * 60_000)
    write(fifo, b'\n{"step": 4}\n')
    await aeventually(lambda: fifo.last == Progress(4))


async def test_a_new_round_begins_without_progress(fifo: ProgressFifo) -> None:
    write(fifo, b'{"step": 1}\n{"st')
    await aeventually(lambda: fifo.last == Progress(1))
    fifo.forget()
    assert fifo.last is None
    write(fifo, b'{"step": 2}\n')
    await aeventually(lambda: fifo.last == Progress(2))


async def test_a_worker_of_another_user_may_write_and_not_read(fifo: ProgressFifo) -> None:
    mode = fifo.path.stat().st_mode
    assert stat.S_ISFIFO(mode)
    assert stat.S_IMODE(mode) == 0o622


async def test_closing_removes_the_fifo_even_if_it_is_already_gone(tmp_path: Path) -> None:
    for removed_before in (False, True):
        fifo = ProgressFifo(tmp_path / f"progress-{removed_before}")
        if removed_before:
            fifo.path.unlink()
        fifo.close()
        assert not fifo.path.exists()

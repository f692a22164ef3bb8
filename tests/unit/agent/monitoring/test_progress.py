"""Progress told through a FIFO: shown if it makes sense, dropped if not, and never a danger to the run."""

import os
import stat
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from elasticjob_agent.monitoring.progress import ProgressFifo, parse_progress
from elasticjob_api.records import Progress
from testing.waiting import aeventually


@pytest.mark.parametrize(
    ("line", "progress"),
    [
        pytest.param(b'{"step": 3, "total": 10}', Progress(3, 10), id="a step of a total"),
        pytest.param(b"{}", Progress(), id="nothing in particular"),
        pytest.param(b'{"metrics": {"loss": 0.5, "name": "a"}}', Progress(metrics={"loss": "0.5", "name": "a"}),
                     id="metrics are text"),
        pytest.param(b'{"step": "3", "total": 2.5, "metrics": [1]}', Progress(), id="wrong types are left out"),
        pytest.param(b'{"step": true, "total": -1}', Progress(), id="true and negative numbers too"),
        pytest.param(b'{"step": 99999999999999999999}', Progress(), id="and what no counter holds"),
        pytest.param(b'{"colour": "blue"}', Progress(), id="unknown names are ignored"),
    ],
)  # fmt: skip
def test_line(line: bytes, progress: Progress) -> None:
    assert parse_progress(line) == progress


@pytest.mark.parametrize("line", [b"", b"step 3", b"[1]", b"3", b"null", b"\xff\xfe", b"[" * 4096, b'{"a": ' * 700])
def test_what_is_no_progress(line: bytes) -> None:
    assert parse_progress(line) is None


def test_a_flood_of_metrics_is_cut() -> None:
    progress = parse_progress(b'{"metrics": {' + b",".join(b'"%d": "%s"' % (i, b"x" * 9) for i in range(99)) + b"}}")
    assert progress is not None
    assert len(progress.metrics) == 32


class Told:
    """A FIFO in a running loop, and how often it told of progress."""

    def __init__(self, folder: Path) -> None:
        self.count = 0
        self.fifo = ProgressFifo(folder / "progress", self._tell)

    def _tell(self) -> None:
        self.count += 1

    def is_last(self, progress: Progress) -> Callable[[], bool]:
        """A condition: this was told last."""
        return lambda: self.fifo.last == progress

    def write(self, data: bytes) -> None:
        """As a worker does."""
        fd = os.open(self.fifo.path, os.O_WRONLY)
        os.write(fd, data)
        os.close(fd)


@pytest.fixture
async def told(tmp_path: Path) -> AsyncIterator[Told]:
    made = Told(tmp_path)
    yield made
    made.fifo.close()


async def test_the_last_line_counts(told: Told) -> None:
    told.write(b'{"step": 1}\nnonsense\n{"step": 2}\n')
    await aeventually(lambda: told.fifo.last == Progress(2))
    assert told.count == 1


async def test_a_line_in_two_pieces_is_one_line(told: Told) -> None:
    told.write(b'{"step"')
    told.write(b": 7}\n")
    await aeventually(lambda: told.fifo.last == Progress(7))


async def test_writers_come_and_go(told: Told) -> None:
    for expected in (Progress(0), Progress(1), Progress(2)):
        told.write(b'{"step": %d}\n' % (expected.step or 0))
        await aeventually(told.is_last(expected))


async def test_an_endless_line_is_dropped_and_the_next_one_counts(told: Told) -> None:
    told.write(b"x" * 60_000)
    told.write(b'\n{"step": 4}\n')
    await aeventually(lambda: told.fifo.last == Progress(4))


async def test_a_new_round_begins_with_nothing_told(told: Told) -> None:
    told.write(b'{"step": 1}\n{"st')
    await aeventually(lambda: told.fifo.last == Progress(1))
    told.fifo.forget()
    assert told.fifo.last is None
    told.write(b'{"step": 2}\n')
    await aeventually(lambda: told.fifo.last == Progress(2))


async def test_a_worker_under_another_user_may_write_and_nobody_else_may_read(told: Told) -> None:
    mode = told.fifo.path.stat().st_mode
    assert stat.S_ISFIFO(mode)
    assert stat.S_IMODE(mode) == 0o622


async def test_the_fifo_goes_with_the_agent_even_if_somebody_removed_it(tmp_path: Path) -> None:
    for removed_before in (False, True):
        fifo = ProgressFifo(tmp_path / f"progress-{removed_before}", lambda: None)
        if removed_before:
            fifo.path.unlink()
        fifo.close()
        assert not fifo.path.exists()

"""The console of a run, on a terminal and in a pipe."""

import os
import pty
from collections.abc import Iterator

import pytest

from elasticjob_cli.local.console import RunConsole, TextStyle, attribute_ranks
from testing.waiting import aeventually

_TERMINAL = {"TERM": "xterm"}


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    """Yield both ends of a terminal."""
    ends = pty.openpty()
    yield ends
    for end in ends:
        os.close(end)


def _output_on(ends: tuple[int, int], environ: dict[str, str]) -> bytes:
    master, slave = ends
    with os.fdopen(os.dup(slave), "w") as stream:
        console = RunConsole(stream, environ=environ, on_broken=lambda: None)
        console.info("all is well", TextStyle.GOOD)
        console.close()
    return os.read(master, 1000)


async def test_a_terminal_gets_colour(terminal: tuple[int, int]) -> None:
    assert b"\x1b[32mall is well\x1b[0m" in _output_on(terminal, _TERMINAL)


@pytest.mark.parametrize("environ", [{**_TERMINAL, "NO_COLOR": "1"}, {"TERM": "dumb"}])
async def test_a_terminal_without_colour_gets_plain_lines(terminal: tuple[int, int], environ: dict[str, str]) -> None:
    output = _output_on(terminal, environ)
    assert b"all is well" in output
    assert b"\x1b" not in output


async def test_a_pipe_gets_plain_lines_and_texts_of_several_lines_are_indented() -> None:
    read, write = os.pipe()
    with os.fdopen(read, "rb") as reader, os.fdopen(write, "w") as stream:
        console = RunConsole(stream, environ=_TERMINAL, on_broken=lambda: None)
        console.info("first\nsecond", TextStyle.BAD)
        console.forward("p", b"hello\n")
        console.close()
        stream.close()
        assert reader.read() == b"[elasticjob   0.0s] first\n  second\n[p] hello\n"


async def test_an_agents_line_about_the_end_of_the_job_is_left_out_and_later_lines_are_not() -> None:
    read, write = os.pipe()
    with os.fdopen(read, "rb") as reader, os.fdopen(write, "w") as stream:
        console = RunConsole(stream, environ=_TERMINAL, on_broken=lambda: None)
        console.forward(
            "p", b"elasticjob-agent: rank 1 on p exited with code 7; maxRestarts 0 is used up (exit code 7)\n"
        )
        console.forward("p", b"hello\n")
        console.close()
        stream.close()
        assert reader.read() == b"[p] hello\n"


async def test_a_closed_reader_is_noticed_without_a_write() -> None:
    read, write = os.pipe()
    broken: list[bool] = []
    with os.fdopen(write, "w") as stream:
        console = RunConsole(stream, environ={}, on_broken=lambda: broken.append(True))
        os.close(read)
        await aeventually(lambda: broken)
        console.close()


@pytest.mark.parametrize(
    ("lines", "shown"),
    [
        (b"a\nb\n", b"[p] a\n[p] b\n"),
        (b"[rank0] a\n[rank11] b\n", b"[rank0] a\n[rank11] b\n"),
        (b"[rank0] a\nagent: b\n", b"[rank0] a\n[p] agent: b\n"),
        (b"\n", b"[p] \n"),
        (b"50%\r100%\n", b"[p] 50%\r100%\n"),
    ],
)
def test_each_line_begins_with_its_rank_or_pod(lines: bytes, shown: bytes) -> None:
    assert attribute_ranks("p", lines) == shown

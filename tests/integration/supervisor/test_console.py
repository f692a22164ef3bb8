"""The console: every kind of descriptor, and a reader that stalls or ends."""

import contextlib
import os
import pty
import threading
import tty
from collections.abc import Iterator
from pathlib import Path

import pytest

from elasticjob_agent.supervisor import Console
from testing.waiting import eventually

_LINES = [b"%07d\n" % n for n in range(20_000)]


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for fd in ends:
        with contextlib.suppress(OSError):  # the test may have closed it
            os.close(fd)


def _read_all(fd: int, size: int) -> bytes:
    data = b""
    while len(data) < size and (piece := os.read(fd, size)):
        data += piece
    return data


def test_a_file_gets_every_line_in_order(tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as file:
        console = Console(file.fileno())
        for line in _LINES:
            console.write(line)
        assert console.close(within_s=10)
    assert (tmp_path / "out").read_bytes() == b"".join(_LINES)


def test_a_terminal_gets_every_line_in_order() -> None:
    reader, terminal = pty.openpty()
    tty.setraw(terminal)
    console = Console(terminal)
    console.write(b"".join(_LINES))
    assert _read_all(reader, 8 * len(_LINES)) == b"".join(_LINES)
    assert console.close(within_s=10)
    os.close(reader)
    os.close(terminal)


@pytest.mark.parametrize("blocking", [True, False])
def test_a_pipe_gets_every_line_in_order_and_keeps_its_mode(pipe: tuple[int, int], *, blocking: bool) -> None:
    os.set_blocking(pipe[1], blocking)
    console = Console(pipe[1])
    console.write(b"".join(_LINES))
    assert _read_all(pipe[0], 8 * len(_LINES)) == b"".join(_LINES)
    assert console.close(within_s=10)
    assert os.get_blocking(pipe[1]) == blocking


def test_a_line_longer_than_a_pipe_takes_at_once_arrives_whole(pipe: tuple[int, int]) -> None:
    console = Console(pipe[1])
    text = b"short\n" + b"y" * 300_000 + b"\nend\n"
    console.write(text)
    assert _read_all(pipe[0], len(text)) == text
    assert console.close(within_s=10)


@pytest.fixture
def full_pipe(pipe: tuple[int, int]) -> tuple[int, int]:
    """Return a pipe that takes nothing before its filler, which ends with a newline, was read."""
    _, writer = pipe
    os.set_blocking(writer, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writer, b"." * 4095 + b"\n")
    os.set_blocking(writer, True)
    return pipe


def _read_until(fd: int, end: bytes) -> list[bytes]:
    """Return the lines up to this one, without the filler."""
    received = b""
    while not received.endswith(end):
        received += os.read(fd, 1 << 20)
    return [line for line in received.splitlines(keepends=True) if not line.startswith(b"..")]


def test_a_stalled_reader_loses_whole_lines_and_gets_their_size(full_pipe: tuple[int, int]) -> None:
    console = Console(full_pipe[1], buffer_bytes=800)
    for line in _LINES:
        console.write(line)
    assert not console.close(within_s=0)
    *lines, notice = _read_until(full_pipe[0], b"not shown here)\n")
    assert lines == _LINES[:100]
    dropped = 8 * (len(_LINES) - 100)
    assert notice == b"(the console was stalled: %d bytes of output are not shown here)\n" % dropped


def test_lines_after_a_stall_come_after_the_notice(full_pipe: tuple[int, int]) -> None:
    console = Console(full_pipe[1], buffer_bytes=800)
    for line in _LINES:
        console.write(line)
    assert _read_until(full_pipe[0], _LINES[99]) == _LINES[:100]
    console.write(b"again\n")
    notice, line = _read_until(full_pipe[0], b"again\n")
    assert (notice[:24], line) == (b"(the console was stalled", b"again\n")
    assert console.close(within_s=10)


def test_a_write_larger_than_the_buffer_is_shown(pipe: tuple[int, int]) -> None:
    console = Console(pipe[1], buffer_bytes=10)
    console.write(b"".join(_LINES))
    assert _read_all(pipe[0], 8 * len(_LINES)) == b"".join(_LINES)
    assert console.close(within_s=10)


def test_two_consoles_on_one_pipe_do_not_tear_each_others_lines(full_pipe: tuple[int, int]) -> None:
    text = [b"".join(b"%s%04d%s\n" % (name, n, name * 50) for n in range(5000)) for name in (b"a", b"b")]
    consoles = [Console(full_pipe[1]) for _ in text]
    for console, lines in zip(consoles, text, strict=True):
        console.write(lines)
    received: list[bytes] = []
    while len(received) < 10_000:
        received += _read_until(full_pipe[0], b"\n")
    assert sorted(received) == sorted(b"".join(text).splitlines(keepends=True))
    assert [console.close(within_s=10) for console in consoles] == [True, True]


def test_a_broken_pipe_is_recorded_and_raises_nothing(pipe: tuple[int, int]) -> None:
    os.close(pipe[0])
    console = Console(pipe[1])
    console.write(b"lost\n")
    eventually(lambda: console.error, what="the error")
    console.write(b"lost too\n")
    assert isinstance(console.error, BrokenPipeError)
    assert not console.close()


def _refuse(_: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_lines_wait_while_no_thread_can_be_started(pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    console = Console(pipe[1])
    with monkeypatch.context() as limit:
        limit.setattr(threading.Thread, "start", _refuse)
        console.write(b"first\n")
        console.write(b"second\n")
    assert console.close(within_s=30)
    assert os.read(pipe[0], 100) == b"first\nsecond\n"


def test_a_console_without_a_thread_closes_with_its_lines_unwritten(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threading.Thread, "start", _refuse)
    console = Console(pipe[1])
    console.write(b"first\n")
    assert not console.close(within_s=0)


def test_an_unused_console_has_no_thread_and_closes(pipe: tuple[int, int]) -> None:
    console = Console(pipe[1])
    assert console.close(within_s=0)
    console.write(b"after the end\n")
    os.set_blocking(pipe[0], False)
    with pytest.raises(BlockingIOError):
        os.read(pipe[0], 1)

"""The error report of a failed worker; the worker writes the file, so its content may be anything."""

import json
import os
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from elasticjob_agent.workers.error_file import EMPTY, TAIL_BYTES, StderrTail, read_error_file
from elasticjob_agent.workers.error_message import error_line


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param({"message": "boom"}, "boom", id="a text"),
        pytest.param({"message": {"message": "boom", "extraInfo": {}}}, "boom", id="as torchrun's record writes it"),
        pytest.param({"message": {"message": {"message": "x"}}}, "", id="too deep"),
        pytest.param({"message": 7}, "", id="a number"),
        pytest.param({}, "", id="no message"),
        pytest.param(["boom"], "", id="a list"),
        pytest.param("boom", "boom", id="a bare text"),
        pytest.param({"message": "x" * 5000}, "x" * 1024, id="a long one is cut"),
    ],
)
def test_message(content: Any, message: str, tmp_path: Path) -> None:
    file = tmp_path / "error.json"
    file.write_text(json.dumps(content))
    assert read_error_file(file).message == message


@pytest.mark.parametrize(
    "content", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b'{"message": "' + b"x" * 300_000 + b'"}', b"\x00" * 10]
)
def test_an_invalid_file_is_empty(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "error.json"
    file.write_bytes(content)
    assert read_error_file(file) == EMPTY


def test_a_missing_file_is_empty(tmp_path: Path) -> None:
    assert read_error_file(tmp_path / "error.json") == EMPTY


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text('{"message": "secret"}')
    (tmp_path / "error.json").symlink_to(tmp_path / "secret")
    assert read_error_file(tmp_path / "error.json") == EMPTY


def test_a_fifo_does_not_block_and_is_empty(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "error.json")
    assert read_error_file(tmp_path / "error.json") == EMPTY


def test_a_folder_is_empty(tmp_path: Path) -> None:
    (tmp_path / "error.json").mkdir()
    assert read_error_file(tmp_path / "error.json") == EMPTY


def tail(data: bytes, prefix: bytes = b"") -> str:
    made = StderrTail(prefix)
    made.add(data)
    return error_line(made.text)


@pytest.mark.parametrize(
    ("data", "line"),
    [
        pytest.param(b"Traceback:\n  File\nValueError: boom\n", "ValueError: boom", id="a traceback's last line"),
        pytest.param(b"boom\n\n   \n", "boom", id="blank lines are skipped"),
        pytest.param(b"", "", id="no output"),
        pytest.param(b"\xff boom\n", "boom", id="not UTF-8"),
        pytest.param(b"y" * 5000, "y" * 1024, id="a long line is cut"),
    ],
)
def test_the_error_line_of_a_tail(data: bytes, line: str) -> None:
    assert tail(data) == line


def test_the_prefix_of_a_rank_is_removed() -> None:
    assert tail(b"[rank3] boom\n[rank3] \n", b"[rank3] ") == "boom"


def test_the_last_4_kib_of_stderr_are_kept() -> None:
    made = StderrTail(b"[rank3] ")
    for number in range(2000):
        made.add(f"[rank3] line {number}\n".encode())
    assert len(made.text) <= TAIL_BYTES
    assert made.text.endswith("line 1998\nline 1999")
    assert "rank3" not in made.text


def test_the_end_of_one_large_piece_is_kept() -> None:
    made = StderrTail(b"")
    made.add(b"early\n" + b"x" * 1_000_000 + b"\nlate\n")
    assert made.text.endswith("xxx\nlate")
    assert len(made.text) < TAIL_BYTES
    assert error_line(made.text) == "late"


def test_lines_that_come_one_by_one_stay_lines() -> None:
    made = StderrTail(b"> ")
    for line in (b"> a\n", b"> \n", b"> b\n> c\n"):
        made.add(line)
    assert made.text == "a\n\nb\nc"


def test_bytes_that_are_not_utf_8_are_left_out() -> None:
    made = StderrTail(b"")
    made.add(b"\xff\xfe boom\n")
    assert made.text == " boom"


def recorded(timestamp: Any) -> dict[str, Any]:
    """Return the content of an error file as torch's `record` writes it."""
    return {"message": {"message": "boom", "extraInfo": {"py_callstack": "Traceback …", "timestamp": timestamp}}}


@pytest.mark.parametrize(
    ("content", "time_ns"),
    [
        pytest.param(recorded(1_700_000_000), 1_700_000_000_000_000_000, id="a whole number"),
        pytest.param(recorded(1_700_000_000.25), 1_700_000_000_250_000_000, id="a float"),
        pytest.param(recorded("1700000000"), 1_700_000_000_000_000_000, id="text, as torch does"),
        pytest.param(recorded("1700000000.123456789"), 1_700_000_000_123_456_789, id="text with a fraction"),
        pytest.param(recorded("soon"), 0, id="text that is no number"),
        pytest.param(recorded(""), 0, id="no text"),
        pytest.param(recorded(None), 0, id="null"),
        pytest.param(recorded(True), 0, id="true is no number"),
        pytest.param(recorded(-5), 0, id="a negative time"),
        pytest.param(recorded(1e300), 0, id="a time too far in the future"),
        pytest.param(recorded("nan"), 0, id="not a number"),
        pytest.param(recorded("9" * 5000), 0, id="far too long"),
        pytest.param(recorded(["1700000000"]), 0, id="a list"),
        pytest.param({"message": "boom"}, 0, id="without one"),
        pytest.param({"message": {"extraInfo": 7}}, 0, id="extraInfo is a number"),
    ],
)
def test_time_of_the_error(content: Any, time_ns: int, tmp_path: Path) -> None:
    file = tmp_path / "error.json"
    file.write_text(json.dumps(content))
    assert read_error_file(file).time_ns == time_ns


def test_a_gigabyte_is_refused_after_the_first_bytes(tmp_path: Path) -> None:
    file = tmp_path / "error.json"
    file.write_text('{"message": "boom"}')
    os.truncate(file, 1 << 30)  # sparse: the zeros take no space
    tracemalloc.start()
    assert read_error_file(file) == EMPTY
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()

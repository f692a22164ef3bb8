"""What a failed worker said of itself; its file is the worker's, and may be anything."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from elasticjob_agent.error_file import Tail, read_error_file


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
    assert read_error_file(file) == message


@pytest.mark.parametrize(
    "content", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b'{"message": "' + b"x" * 300_000 + b'"}', b"\x00" * 10]
)
def test_nonsense_says_nothing(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "error.json"
    file.write_bytes(content)
    assert read_error_file(file) == ""


def test_a_file_that_is_not_there_says_nothing(tmp_path: Path) -> None:
    assert read_error_file(tmp_path / "error.json") == ""


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text('{"message": "secret"}')
    (tmp_path / "error.json").symlink_to(tmp_path / "secret")
    assert read_error_file(tmp_path / "error.json") == ""


def test_a_fifo_neither_blocks_nor_speaks(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "error.json")
    assert read_error_file(tmp_path / "error.json") == ""


def test_a_folder_does_not_speak_either(tmp_path: Path) -> None:
    (tmp_path / "error.json").mkdir()
    assert read_error_file(tmp_path / "error.json") == ""


def tail(data: bytes, prefix: bytes = b"") -> str:
    made = Tail(prefix)
    made.add(data)
    return made.last_words()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        pytest.param(b"Traceback:\n  File\nValueError: boom\n", "ValueError: boom", id="a traceback's last line"),
        pytest.param(b"boom\n\n   \n", "boom", id="empty lines say nothing"),
        pytest.param(b"", "", id="nothing was said"),
        pytest.param(b"\xff boom\n", "\ufffd boom", id="not text"),
        pytest.param(b"y" * 5000, "y" * 1024, id="a long line is cut"),
    ],
)
def test_last_words(data: bytes, words: str) -> None:
    assert tail(data) == words


def test_the_prefix_of_a_rank_is_no_part_of_its_words() -> None:
    assert tail(b"[rank3] boom\n[rank3] \n", b"[rank3] ") == "boom"


def test_words_from_before_many_lines_are_forgotten() -> None:
    made = Tail(b"")
    made.add(b"early\n")
    for _ in range(30):
        made.add(b"\n")
    assert made.last_words() == ""

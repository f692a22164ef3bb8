"""Errors on their way from worker to parent."""

import json
import os
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from elasticjob_agent.multiprocessing.errors import ChildFailedError, ErrorHandler, ProcessFailure, record

ENV = "TORCHELASTIC_ERROR_FILE"


@pytest.fixture
def error_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    path = tmp_path / "error.json"
    monkeypatch.setenv(ENV, str(path))
    yield path
    assert [each.name for each in tmp_path.iterdir() if each.name.endswith(".part")] == []


def _good(value: int) -> int:
    return value + 1


def _exit(code: object) -> object:
    sys.exit(code)  # type: ignore[arg-type]  # a text is allowed


def _raise(error: BaseException) -> None:
    raise error


def test_b_000_53_a_good_function_leaves_no_file(error_file: Path) -> None:
    assert record(_good)(1) == 2
    assert record(_good).__name__ == "_good"
    assert not error_file.exists()


def test_b_000_53_an_exception_is_recorded_and_raised(error_file: Path) -> None:
    with pytest.raises(ValueError, match="no"):
        record(_raise)(ValueError("no"))
    message = json.loads(error_file.read_text())["message"]
    assert message["message"] == "ValueError: no"
    extra = message["extraInfo"]
    assert extra["py_callstack"].endswith("ValueError: no\n")
    assert int(extra["timestamp_ns"]) // 10**9 == int(extra["timestamp"])


def test_b_000_53_exits(error_file: Path) -> None:
    assert record(_exit)(0) is None
    for code in (3, "x"):
        with pytest.raises(SystemExit) as caught:
            record(_exit)(code)
        assert caught.value.code == code
    assert not error_file.exists()


@pytest.mark.parametrize("path", [None, "", "/proc/no/such/error.json"])
def test_b_000_53_the_exception_is_raised_even_if_no_file_can_be_written(
    monkeypatch: pytest.MonkeyPatch, path: str | None
) -> None:
    monkeypatch.delenv(ENV, raising=False)
    if path is not None:
        monkeypatch.setenv(ENV, path)
    with pytest.raises(LookupError):
        record(_raise)(LookupError())


def _failure(rank: int, at_ns: int, *, code: int = 1, stopped: bool = False) -> ProcessFailure:
    failure = ProcessFailure(rank, 100 + rank, code, "", stopped_by_us=stopped)
    failure.timestamp_ns, failure.timestamp = at_ns, at_ns // 10**9
    return failure


def test_b_000_54_the_file_of_a_failed_child_is_copied(error_file: Path, tmp_path: Path) -> None:
    child = tmp_path / "child.json"
    child.write_text(json.dumps({"message": {"message": "E: x", "extraInfo": {"timestamp": "12"}}}))
    error = ChildFailedError("main", {0: ProcessFailure(0, 9, 138, str(child))})
    with pytest.raises(ChildFailedError):
        record(_raise)(error)
    assert json.loads(error_file.read_text())["message"]["errorCode"] == 138


def test_b_000_54_without_a_file_of_the_child_none_is_created(error_file: Path) -> None:
    with pytest.raises(ChildFailedError):
        record(_raise)(ChildFailedError("main", {0: _failure(0, 1)}))
    assert not error_file.exists()


FORMATS: list[tuple[dict[str, Any], int | None]] = [
    ({"message": {"message": "E", "extraInfo": {"timestamp": "12"}}}, 12 * 10**9),
    ({"message": {"message": "E", "extraInfo": {"timestamp": "12", "timestamp_ns": "12000000007"}}}, 12 * 10**9 + 7),
    ({"message": "E", "timestamp": 12}, 12 * 10**9),
    ({"message": "E", "timestamp": 12.5}, 12 * 10**9),
    ({"message": "E", "timestamp": "12"}, 12 * 10**9),
    ({"message": "E", "timestamp": "soon"}, None),
    ({"message": "E"}, None),
    ({"message": {"message": "E"}}, None),
]


@pytest.mark.parametrize(("data", "at_ns"), FORMATS)
def test_b_000_55_each_format_is_read(tmp_path: Path, data: dict[str, Any], at_ns: int | None) -> None:
    path = tmp_path / "error.json"
    path.write_text(json.dumps(data))
    failure = ProcessFailure(1, 2, 3, str(path))
    assert (failure.message, failure.error_file_data) == (data["message"], data)
    assert failure.timestamp == (at_ns or path.stat().st_mtime_ns) // 10**9
    assert failure.exit_code == failure.exitcode == 3


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"message": 3}', '{"message": null}'])
def test_b_000_55_anything_else_raises(tmp_path: Path, text: str) -> None:
    path = tmp_path / "error.json"
    path.write_text(text)
    with pytest.raises(ValueError):  # noqa: PT011 - JSON's own message, or ours
        ProcessFailure(0, 1, 1, str(path))


def test_b_000_55_and_k_000_13_failures_share_nothing() -> None:
    first, second = ProcessFailure(0, 1, 1, "/no/such/file"), ProcessFailure(0, 1, 1, "")
    assert first.error_file == second.error_file == "<N/A>"
    first.error_file_data["message"] = "changed"
    assert second.error_file_data == {"message": "<NONE>"}


def test_b_000_16_a_signal_is_named_and_a_nameless_one_numbered() -> None:
    assert ProcessFailure(0, 7, -11, "").message == "Signal 11 (SIGSEGV) received by PID 7"
    assert ProcessFailure(0, 7, -40, "").message == "Signal 40 (<N/A>) received by PID 7"
    assert ProcessFailure(0, 7, -11, "").signal_name() == "SIGSEGV"
    assert ProcessFailure(0, 7, 11, "").signal_name() == "<N/A>"


@pytest.mark.parametrize("old", ["{}", "{corrupt", None])
def test_b_000_57_the_last_root_cause_wins(
    error_file: Path, tmp_path: Path, old: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    if old is not None:
        error_file.write_text(old)
    child = tmp_path / "child.json"
    child.write_text('{"message": "text"}')
    ErrorHandler().dump_error_file(str(child), 5)
    assert json.loads(error_file.read_text()) == {"message": "text"}
    assert old is None or old in caplog.text


def test_b_000_58_the_report_of_one_failure() -> None:
    error = ChildFailedError("train", {4: _failure(0, 5, code=-11)})
    text = str(error)
    for part in (
        "train FAILED",
        "<NO_OTHER_FAILURES>",
        "exitcode  : -11 (pid: 100) (SIGSEGV)",
        "rank      : 4 (local_rank: 0)",
    ):
        assert part in text
    assert "####" in error.format_msg(boarder_delim="#")


def test_b_000_58_and_k_000_11_the_root_cause_is_the_earliest_that_was_not_stopped() -> None:
    failures = {0: _failure(0, 5_000_000_900), 1: _failure(1, 5_000_000_100), 2: _failure(2, 1, code=-15, stopped=True)}
    error = ChildFailedError("train", failures)
    assert error.get_first_failure() == (1, failures[1])
    assert str(error).rindex("(pid: 101)") > str(error).index("Root Cause")
    assert ChildFailedError("t", {1: _failure(1, 5), 0: _failure(0, 5)}).get_first_failure()[0] == 0
    assert ChildFailedError("t", {2: failures[2]}).get_first_failure()[0] == 2


def test_b_000_58_errors_pickle() -> None:
    error = ChildFailedError("train", {0: _failure(0, 5)})
    copy = pickle.loads(pickle.dumps(error))
    assert (copy.name, copy.failures, str(copy)) == (error.name, error.failures, str(error))


def test_failures_are_needed() -> None:
    with pytest.raises(AssertionError, match="at least one"):
        ChildFailedError("train", {})


class _Broken(Exception):
    def __str__(self) -> str:
        raise RuntimeError


def test_b_000_25_an_exception_without_a_text_is_recorded(error_file: Path) -> None:
    with pytest.raises(_Broken):
        record(_raise)(_Broken())
    assert "_Broken: <its text cannot be shown" in error_file.read_text()
    assert os.environ[ENV]

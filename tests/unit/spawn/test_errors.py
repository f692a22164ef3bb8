"""The exceptions of `join`: their texts, and that every field survives pickling and copying."""

import copy
import pickle
from collections.abc import Callable

import pytest

from elasticjob_agent.spawn import ProcessException, ProcessExitedException, ProcessRaisedException
from elasticjob_agent.spawn.errors import raised

_FIELDS = ("msg", "error_index", "pid", "error_pid", "exit_code", "signal_name")


def _fields(error: ProcessException) -> dict[str, object]:
    return {name: getattr(error, name) for name in _FIELDS if hasattr(error, name)}


def _pickled(error: ProcessException) -> ProcessException:
    copied = pickle.loads(pickle.dumps(error))
    assert isinstance(copied, ProcessException)
    return copied


@pytest.mark.parametrize("how", [_pickled, copy.deepcopy, copy.copy])
@pytest.mark.parametrize(
    "error",
    [
        ProcessException("it failed", 3, 4711),
        ProcessRaisedException("it raised", 1, 4712),
        ProcessExitedException("it exited", 0, 4713, 7),
        ProcessExitedException("it was killed", 2, 4714, -6, "SIGABRT"),
    ],
    ids=["base", "raised", "exited", "killed"],
)
def test_b_003_16_every_exception_pickles_and_copies_with_all_fields(
    error: ProcessException, how: Callable[[ProcessException], ProcessException]
) -> None:
    copied = how(error)
    assert (type(copied), _fields(copied), str(copied)) == (type(error), _fields(error), error.msg)


@pytest.mark.parametrize("exit_code", range(1, 256))
def test_b_003_09_an_exit_code_is_in_text_and_field(exit_code: int) -> None:
    error = ProcessExitedException.of(3, pid=4711, exit_code=exit_code)
    assert (error.msg, error.exit_code) == (f"process 3 terminated with exit code {exit_code}", exit_code)
    assert error.signal_name is None


def test_b_003_07_a_signal_is_named() -> None:
    error = ProcessExitedException.of(0, pid=4711, exit_code=-6)
    assert error.msg == "process 0 terminated with signal SIGABRT"
    assert (error.exit_code, error.signal_name, error.error_index, error.pid) == (-6, "SIGABRT", 0, 4711)


def test_b_003_08_a_signal_without_a_name_is_unknown_and_numbered() -> None:
    error = ProcessExitedException.of(1, pid=4711, exit_code=-37)
    assert error.msg == "process 1 terminated with signal <Unknown signal 37>"
    assert error.signal_name == "<Unknown signal 37>"


def test_the_text_of_a_raised_exception_begins_with_the_index_and_ends_with_the_child_s_last_line() -> None:
    error = raised(5, pid=4711, traceback="Traceback …\n  File …\nValueError: no\n")
    assert error.msg.startswith("\n\n-- Process 5 terminated with the following error:\nTraceback")
    assert error.msg.endswith("ValueError: no")


@pytest.mark.parametrize("keyword", ["pid", "error_pid"])
def test_k_003_01_the_pid_has_both_names_and_is_accepted_by_both(keyword: str) -> None:
    error = ProcessException("it failed", 0, **{keyword: 4711})
    assert (error.pid, error.error_pid) == (4711, 4711)


@pytest.mark.parametrize("pids", [{}, {"pid": 1, "error_pid": 1}], ids=["none", "both"])
def test_a_pid_is_given_exactly_once(pids: dict[str, int]) -> None:
    with pytest.raises(TypeError, match="exactly one of pid and error_pid"):
        ProcessException("it failed", 0, **pids)

"""Functions as workers: values, every way to end, simultaneous failures, nothing left and nothing hung."""

import io
import json
import os
import signal
import time
from functools import partial
from pathlib import Path
from pickle import PicklingError
from typing import Any

import pytest

from elasticjob_agent.multiprocessing import MultiprocessContext, PContext, Std
from testing.waiting import eventually
from tests.integration.multiprocessing import functions
from tests.integration.multiprocessing.conftest import Start

METHODS = ["spawn", "fork", "forkserver"]


def _wait(context: PContext) -> Any:
    result = context.wait(60)
    assert result is not None
    return result


@pytest.mark.parametrize("method", METHODS)
def test_b_000_12_values_are_returned_by_rank(start: Start, method: str) -> None:
    result = _wait(start(functions.echo, {0: (1,), 1: ([2, 3],)}, start_method=method))
    assert (result.return_values, result.failures, result.is_failed()) == ({0: 1, 1: [2, 3]}, {}, False)
    assert _wait(start(functions.nothing, {0: ()}, start_method=method)).return_values == {0: None}


@pytest.mark.parametrize("sizes", [[10_000_000] * 4, [200_000_000]])
def test_b_000_13_large_values_pass(start: Start, sizes: list[int]) -> None:
    args = {rank: (size,) for rank, size in enumerate(sizes)}
    values = _wait(start(functions.big, args, start_method="fork")).return_values
    assert [len(values[rank]) for rank in args] == sizes


SUCCESS = [("sys.exit", None), ("sys.exit", 0), ("sys.exit", 256), ("os._exit", 0), ("value", None)]


@pytest.mark.parametrize("method", METHODS)
def test_a_value_may_need_its_worker_until_it_is_unpickled(start: Start, method: str) -> None:
    result = _wait(start(functions.opens_pipe, {0: (), 1: ()}, start_method=method))
    assert not result.is_failed(), result.failures
    assert [result.return_values[rank].recv() for rank in (0, 1)] == ["in a pipe of the worker"] * 2


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_b_000_14_and_k_000_05_every_exit_with_0_is_a_success(start: Start, method: str) -> None:
    result = _wait(start(functions.end, dict(enumerate(SUCCESS)), start_method=method))
    assert (result.failures, result.return_values) == ({}, dict.fromkeys(range(len(SUCCESS))))


# The way to end, the exit code, whether it leaves an error file, a part of its message.
FAILURES = [
    (("unpicklable",), 1, True, "pickle"),
    (("base",), 1, True, "_Own"),
    (("generator",), 1, True, "GeneratorExit"),
    (("sys.exit", 7), 7, False, "exit code 7"),
    (("sys.exit", -1), 255, False, "exit code 255"),
    (("os._exit", 9), 9, False, "exit code 9"),
    (("sys.exit", "text"), 1, False, "text"),
    (("ctrl-c",), -2, False, "Signal 2 (SIGINT)"),
    (("kill", signal.SIGSEGV), -11, False, "Signal 11 (SIGSEGV) received by PID"),
    (("kill", signal.SIGABRT), -6, False, "(SIGABRT)"),
    (("kill", signal.SIGKILL), -9, False, "(SIGKILL)"),
    (("kill", signal.SIGTERM), -15, False, "(SIGTERM)"),
    (("kill", signal.SIGUSR1), -10, False, "(SIGUSR1)"),
    (("kill", signal.SIGRTMIN + 2), -36, False, "Signal 36"),
    (("crash at exit",), 5, False, "exit code 5"),
]


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_b_000_14_and_b_000_16_every_failure_is_reported(start: Start, method: str) -> None:
    contexts = [start(functions.end, {0: how}, start_method=method) for how, _, _, _ in FAILURES]
    for context, (how, code, has_file, text) in zip(contexts, FAILURES, strict=True):
        result = _wait(context)
        failure = result.failures[0]
        assert (how, failure.exitcode, failure.error_file != "<N/A>") == (how, code, has_file)
        assert text in str(failure.message)
        assert (failure.pid, failure.stopped_by_us, result.return_values) == (context.pids()[0], False, {})


def test_b_000_15_exit_codes_arrive_unchanged(start: Start) -> None:
    codes = [1, 2, 77, 127, 128, 138, 254, 255]
    contexts = {code: start(functions.end, {0: ("sys.exit", code)}, start_method="fork") for code in codes}
    assert {code: _wait(context).failures[0].exitcode for code, context in contexts.items()} == {c: c for c in codes}


@pytest.mark.parametrize("method", METHODS)
def test_b_000_17_one_failure_ends_the_others(start: Start, method: str) -> None:
    context = start(_first_fails, {0: (0,), 1: (1,)}, start_method=method)
    result = _wait(context)
    assert (list(result.failures), result.return_values) == ([0], {})
    failure = result.failures[0]
    written = json.loads(Path(failure.error_file).read_text())["message"]["extraInfo"]
    assert (failure.timestamp, failure.timestamp_ns) == (int(written["timestamp"]), int(written["timestamp_ns"]))
    assert not any(Path(f"/proc/{pid}").exists() for pid in context.pids().values())


def _first_fails(rank: int) -> None:
    if rank == 0:
        raise ValueError
    time.sleep(600)


def test_b_000_18_simultaneous_failures_are_all_reported(start: Start) -> None:
    at_s = time.time() + 0.3
    context = start(functions.fail_at, {rank: (at_s + 0.005 * (3 - rank),) for rank in range(3)}, start_method="fork")
    context.settle_s = 20
    failures = _wait(context).failures
    assert sorted(failures) == [0, 1, 2]
    assert all("ValueError" in failure.message["extraInfo"]["py_callstack"] for failure in failures.values())


def test_b_000_19_and_k_000_10_a_forked_worker_has_none_of_the_parents_handlers(start: Start) -> None:
    assert _wait(start(functions.forked_surroundings, {0: ()}, start_method="fork")).return_values == {0: (True, True)}
    context = start(_first_fails, {0: (0,), 1: (1,)}, start_method="fork")
    assert list(_wait(context).failures) == [0]
    assert not Path(context.error_files[1]).exists()


def test_b_000_20_and_k_000_06_a_worker_killed_while_it_waits_for_the_others(start: Start) -> None:
    context = start(_sleep_but_0, {0: (0,), 1: (1,)}, start_method="fork")
    pid = context.pids()[0]
    workers = context._workers
    assert workers
    eventually(lambda: workers.outcome(0), within_s=20, what="the value of rank 0")
    os.kill(pid, signal.SIGKILL)
    assert {rank: failure.exitcode for rank, failure in _wait(context).failures.items()} == {0: -9}


def _sleep_but_0(rank: int) -> None:
    if rank:
        time.sleep(600)


def test_b_000_21_a_worker_killed_while_it_sends(start: Start) -> None:
    context = start(functions.big, {0: (200_000_000,)}, start_method="fork")
    assert context._workers
    channel = context._workers._functions[0]._channel
    eventually(lambda: len(channel._data), within_s=20, what="the first bytes of the value", pause_s=0.001)
    os.kill(context.pids()[0], signal.SIGKILL)
    assert _wait(context).failures[0].exitcode == -9


def test_b_000_22_a_function_that_never_began(start: Start) -> None:
    context = start(functions.echo, {0: (functions.MissingInTheChild(),)}, redirects=Std.ALL)
    failure = _wait(context).failures[0]
    assert "never began" in failure.message
    assert "no such module in the child" in Path(context.stderrs[0]).read_text()


@pytest.mark.parametrize("argument", [lambda: None, io.StringIO])
def test_b_000_23_an_argument_that_cannot_be_pickled(start: Start, tmp_path: Path, argument: Any) -> None:
    with pytest.raises((AttributeError, TypeError, PicklingError), match="pickle"), (tmp_path / "f").open("w") as file:
        start(functions.echo, {0: (1,), 1: (argument if argument is not io.StringIO else file,)})


@pytest.mark.parametrize("how", ["atexit", "thread"])
def test_b_000_24_the_result_comes_after_the_end_of_the_processes(start: Start, how: str) -> None:
    pid = _wait(start(functions.slow_to_leave, {0: (how,)}, start_method="spawn")).return_values[0]
    assert not Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize("how", ["recursion", "group", "broken text", "socket", "long"])
def test_b_000_25_strange_exceptions_are_recorded(start: Start, how: str) -> None:
    failure = _wait(start(functions.fail_strangely, {0: (how,)}, start_method="fork")).failures[0]
    assert failure.exitcode == 1
    assert json.loads(Path(failure.error_file).read_text()) == failure.error_file_data


@pytest.mark.parametrize("text", ['{"message": {"mess', "[1]", "\x00"])
def test_b_000_56_and_k_000_12_an_unreadable_error_file(start: Start, text: str) -> None:
    failure = _wait(start(_spoil_error_file, {0: (text,)}, start_method="fork")).failures[0]
    assert failure.exitcode == 3
    assert "unreadable" in failure.message


def _spoil_error_file(text: str) -> None:
    Path(os.environ["TORCHELASTIC_ERROR_FILE"]).write_text(text)
    os._exit(3)


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_b_001_23_all_kinds_of_callables(start: Start, method: str) -> None:
    kinds = [(partial(functions.shared, 4), ()), (functions.CallMe(), (7,)), (len, ([1, 2],))]
    assert [
        _wait(start(entrypoint, {0: args}, start_method=method)).return_values[0] for entrypoint, args in kinds
    ] == [8, 8, 2]


def test_no_start_method_is_the_default_of_multiprocessing(start: Start) -> None:
    assert _wait(start(functions.echo, {0: (1,)}, start_method=None)).return_values == {0: 1}


def test_b_001_22_an_unknown_start_method(start: Start) -> None:
    with pytest.raises(ValueError, match="spawn, fork, forkserver"):
        start(functions.nothing, {0: ()}, start_method="threads")
    assert _wait(start("true", {0: ()}, start_method="threads")).return_values == {0: None}


def test_k_001_06_no_worker_waits_for_the_start_of_another(start: Start, tmp_path: Path) -> None:
    go = tmp_path / "go"
    context = start(functions.echo, {rank: (rank, functions.WaitsOnArrival(str(go))) for rank in range(4)})
    assert sorted(context.pids()) == [0, 1, 2, 3]
    go.touch()
    assert [value[0] for value in _wait(context).return_values.values()] == [0, 1, 2, 3]


@pytest.mark.parametrize("method", METHODS)
def test_workers_may_start_workers(start: Start, tmp_path: Path, method: str) -> None:
    folder = tmp_path / "inner"
    folder.mkdir()
    result = _wait(start(functions.nested, {0: (method, str(folder))}, start_method=method))
    assert result.return_values == {0: ({0: 1, 1: 2}, True)}


def test_pids_are_available_only_after_the_start(tmp_path: Path) -> None:
    from elasticjob_agent.multiprocessing import DefaultLogsSpecs  # noqa: PLC0415 - only here

    context = MultiprocessContext("w", functions.nothing, {0: ()}, {0: {}}, "fork", DefaultLogsSpecs(str(tmp_path)))
    with pytest.raises(AssertionError, match="not started"):
        context.pids()
    context.close()

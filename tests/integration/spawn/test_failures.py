"""Processes that fail: the choice of the reported one, and its error."""

import multiprocessing
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from elasticjob_agent.spawn import (
    ProcessContext,
    ProcessException,
    ProcessExitedException,
    ProcessRaisedException,
    start_processes,
)
from testing.waiting import scaled
from tests.integration.spawn import functions

METHODS = ["spawn", "fork", "forkserver"]


def _error(function: object, *args: object, nprocs: int = 2, start_method: str = "fork") -> ProcessException:
    with pytest.raises(ProcessException) as caught:
        start_processes(function, args=args, nprocs=nprocs, start_method=start_method)  # type: ignore[arg-type]
    return caught.value


def _exit(function: object, *args: object, nprocs: int = 1) -> ProcessExitedException:
    error = _error(function, *args, nprocs=nprocs)
    assert isinstance(error, ProcessExitedException)
    return error


@pytest.mark.parametrize("start_method", METHODS)
@pytest.mark.parametrize("failing", [0, 1])
def test_b_003_05_the_process_that_raised_is_named_with_its_traceback(failing: int, start_method: str) -> None:
    context = start_processes(functions.raise_if, args=(failing,), nprocs=2, join=False, start_method=start_method)
    assert context is not None
    with pytest.raises(ProcessRaisedException) as caught:
        context.join()
    error = caught.value
    assert (error.error_index, error.pid, error.error_pid) == (
        failing,
        context.pids()[failing],
        context.pids()[failing],
    )
    assert error.msg.endswith(f"ValueError: legitimate exception from process {failing}")
    assert "in raise_if" in error.msg


@pytest.mark.parametrize("order", [[2, 0, 1], [1, 2, 0]])
def test_b_003_06_when_all_raise_the_earliest_is_reported(tmp_path: Path, order: list[int]) -> None:
    error = _error(functions.raise_in_turn, tmp_path, order, nprocs=3)
    assert error.error_index == order[0]
    assert error.msg.endswith(f"ValueError: process {order[0]}")


@pytest.mark.parametrize("name", ["SIGABRT", "SIGKILL", "SIGSEGV", "SIGTERM"])
def test_b_003_07_a_signal_is_reported_by_name_and_number(name: str) -> None:
    number = signal.Signals[name]
    error = _exit(functions.die, number, nprocs=2)
    assert (error.msg, error.exit_code) == (f"process 0 terminated with signal {name}", -number)
    assert error.signal_name == name


def test_b_003_08_a_signal_without_a_name_is_reported_by_number() -> None:
    error = _exit(functions.die, signal.SIGRTMIN + 3)
    assert "unknown" in error.msg.lower()
    assert str(signal.SIGRTMIN + 3) in error.msg


def test_b_003_09_each_exit_code_is_reported() -> None:
    for code in (1, 2, 77, 127, 128, 255):
        error = _exit(functions.exit_with, code)
        assert (error.msg, error.exit_code) == (f"process 0 terminated with exit code {code}", code)


@pytest.mark.parametrize(("argument", "code"), [(-1, 255), ("msg", 1), (257, 1)])
def test_b_003_09_other_arguments_of_exit_have_the_usual_codes(argument: object, code: int) -> None:
    assert _exit(functions.exit_with, argument).exit_code == code


@pytest.mark.parametrize("argument", [None, 0, 256, False])
def test_b_003_09_an_exit_with_nothing_or_a_multiple_of_256_is_success(argument: object) -> None:
    start_processes(functions.exit_with, args=(argument,), start_method="fork")


def test_b_003_10_a_failure_after_a_success_is_reported(tmp_path: Path) -> None:
    context = start_processes(functions.fail_on_request, args=(tmp_path,), nprocs=2, join=False, start_method="fork")
    assert context is not None
    assert context.join() is False
    functions.write(tmp_path / "fail")
    with pytest.raises(ProcessExitedException, match="process 1 terminated with exit code 3"):
        context.join()


@pytest.mark.parametrize("start_method", METHODS)
def test_b_003_11_a_keyboard_interrupt_of_a_child_is_quiet_success(
    start_method: str, capfd: pytest.CaptureFixture[str]
) -> None:
    start_processes(functions.interrupt, start_method=start_method)
    assert "KeyboardInterrupt" not in "".join(capfd.readouterr())


@pytest.mark.parametrize("start_method", METHODS)
def test_b_003_11_a_sigint_to_a_child_is_quiet_success(start_method: str, capfd: pytest.CaptureFixture[str]) -> None:
    start_processes(functions.die, args=(signal.SIGINT,), start_method=start_method)
    assert "KeyboardInterrupt" not in "".join(capfd.readouterr())


@pytest.mark.parametrize("start_method", METHODS)
@pytest.mark.parametrize(
    ("kind", "end"),
    [
        ("unpicklable", "_Unpicklable: with a payload"),
        ("unprintable", "_Unprintable: <exception str() failed>"),
        ("local class", "OfNoModule: made in the child"),
        ("5 MB", "xend"),
        ("base exception", "_Base: not even an Exception"),
    ],
)
def test_b_003_12_the_traceback_of_every_exception_is_forwarded(kind: str, end: str, start_method: str) -> None:
    error = _error(functions.raise_oddly, kind, nprocs=1, start_method=start_method)
    assert isinstance(error, ProcessRaisedException)
    assert error.msg.endswith(end)


def test_b_003_12_an_exception_of_a_class_of_the_main_module_is_forwarded(tmp_path: Path) -> None:
    main = tmp_path / "main.py"
    main.write_text(
        "from elasticjob_agent.spawn import spawn\n"
        "class Mine(Exception): pass\n"
        "def fail(index): raise Mine('of the main module')\n"
        "if __name__ == '__main__': spawn(fail)\n"
    )
    ran = subprocess.run([sys.executable, main], capture_output=True, text=True, check=False, timeout=scaled(60))
    assert ran.returncode == 1
    assert ran.stderr.rstrip().endswith("Mine: of the main module")


@pytest.mark.parametrize("start_method", METHODS)
def test_b_003_15_join_after_a_failure_raises_the_same_three_times(start_method: str) -> None:
    context = start_processes(functions.raise_if, args=(1,), nprocs=3, join=False, start_method=start_method)
    assert context is not None
    errors = []
    for _ in range(3):
        with pytest.raises(ProcessRaisedException) as caught:
            context.join()
        errors.append(caught.value)
    assert {id(error) for error in errors} == {id(errors[0])}
    assert errors[0].error_index == 1


def test_processes_of_the_standard_library_can_be_joined_too(tmp_path: Path) -> None:
    kind = multiprocessing.get_context("spawn")
    processes = [kind.Process(target=functions.fail_beside, args=(i, tmp_path, "ends at SIGTERM")) for i in range(2)]
    for process in processes:
        process.start()
    context = ProcessContext(processes, ["", ""])
    with pytest.raises(ProcessExitedException, match="process 0 terminated with exit code 3"):
        context.join()
    assert (tmp_path / "got SIGTERM").exists()
    assert [process.exitcode for process in processes] == [3, 0]

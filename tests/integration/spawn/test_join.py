"""Wait for processes that end without a failure."""

import multiprocessing
import os
import signal
import threading
import time
from pathlib import Path

import psutil
import pytest

from elasticjob_agent.spawn import ProcessContext, spawn, start_processes
from testing.waiting import eventually
from tests.integration.spawn import functions

METHODS = ["spawn", "fork", "forkserver"]


def _started(function: object, *args: object, nprocs: int = 2, start_method: str = "fork") -> ProcessContext:
    context = start_processes(function, args=args, nprocs=nprocs, join=False, start_method=start_method)  # type: ignore[arg-type]
    assert context is not None
    return context


def _join_all(context: ProcessContext) -> None:
    while not context.join():
        pass


@pytest.mark.parametrize("start_method", METHODS)
def test_b_003_01_two_processes_succeed_under_each_start_method(tmp_path: Path, start_method: str) -> None:
    start_processes(functions.note, args=(tmp_path,), nprocs=2, start_method=start_method)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "1"]


def test_b_003_01_spawn_with_its_defaults_runs_one_process_and_returns_none(tmp_path: Path) -> None:
    assert spawn(functions.note, (tmp_path,)) is None
    assert [path.name for path in tmp_path.iterdir()] == ["0"]


def test_b_003_02_repeated_joins_return_true_in_the_end_and_from_then_on() -> None:
    context = _started(functions.nothing)
    _join_all(context)
    assert [context.join(), context.join(0)] == [True, True]


def test_b_003_03_a_join_that_may_not_wait_is_false_while_processes_run(tmp_path: Path) -> None:
    context = _started(functions.wait_for_file, tmp_path / "go")
    assert [context.join(0), context.join(-1), context.join(0.2)] == [False, False, False]
    functions.write(tmp_path / "go")
    _join_all(context)


def test_b_003_03_one_success_of_two_is_false(tmp_path: Path) -> None:
    context = _started(functions.wait_unless, 0, tmp_path / "go")
    assert context.join() is False
    assert list(context.sentinels.values()) == [1]
    functions.write(tmp_path / "go")
    assert context.join() is True


def test_b_003_04_the_index_comes_first_then_the_args(tmp_path: Path) -> None:
    start_processes(functions.note, args=(tmp_path, "a", 1, None), nprocs=2)
    assert [(tmp_path / str(i)).read_text() for i in range(2)] == ["(0, ('a', 1, None))", "(1, ('a', 1, None))"]


def test_args_may_be_an_iterator(tmp_path: Path) -> None:
    start_processes(functions.note, args=iter([tmp_path, "a"]), nprocs=2, start_method="fork")
    assert [(tmp_path / str(i)).read_text() for i in range(2)] == ["(0, ('a',))", "(1, ('a',))"]


@pytest.mark.parametrize("start_method", METHODS)
def test_b_003_04_args_may_hold_queues_and_events_of_the_same_context(start_method: str) -> None:
    kind = multiprocessing.get_context(start_method)
    queue, event = kind.SimpleQueue(), kind.Event()
    context = _started(functions.put, queue, event, start_method=start_method)
    assert sorted([queue.get(), queue.get()]) == [0, 1]
    event.set()
    _join_all(context)


@pytest.mark.parametrize("start_method", METHODS)
def test_b_003_25_no_processes_are_joined_at_once(start_method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_MP_PARALLEL_START", "1")
    assert _started(functions.nothing, nprocs=0, start_method=start_method).join() is True


def test_k_003_07_a_negative_number_of_processes_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="nprocs is -1"):
        start_processes(functions.nothing, nprocs=-1)


def test_b_003_27_pids_are_those_of_the_processes_by_index_also_after_the_end(tmp_path: Path) -> None:
    context = _started(functions.record_pid_and_hang, tmp_path, nprocs=3)
    pids = context.pids()
    eventually(lambda: len(list(tmp_path.glob("leaf ?"))) == 3, within_s=30, what="three processes")
    assert pids == [int((tmp_path / f"leaf {index}").read_text()) for index in range(3)]
    os.kill(pids[1], signal.SIGKILL)
    with pytest.raises(Exception, match="process 1 terminated with signal SIGKILL"):
        context.join()
    assert context.pids() == pids


def test_b_003_30_an_interrupt_of_the_parent_leaves_join_and_the_next_join_works(tmp_path: Path) -> None:
    context = _started(functions.interrupt_parent, os.getpid(), tmp_path)

    def join() -> None:
        functions.write(tmp_path / "ready")  # not before: an interrupt of the start would undo it
        context.join()

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    try:
        with pytest.raises(KeyboardInterrupt):
            join()
    finally:
        signal.signal(signal.SIGINT, before)
    functions.write(tmp_path / "go")
    _join_all(context)


def test_b_003_31_waiting_costs_no_cpu(tmp_path: Path) -> None:
    context = _started(functions.wait_for_file, tmp_path / "go")
    before_s, began_s = sum(psutil.Process().cpu_times()[:2]), time.monotonic()
    context.join(1.0)
    used_s, waited_s = sum(psutil.Process().cpu_times()[:2]) - before_s, time.monotonic() - began_s
    functions.write(tmp_path / "go")
    _join_all(context)
    assert used_s < waited_s / 10


def test_b_003_31_the_last_of_200_processes_ends_the_join() -> None:
    context = _started(functions.nothing, nprocs=200)
    _join_all(context)
    assert all(process.exitcode == 0 for process in context.processes)


def test_b_003_20_processes_outlive_the_thread_that_started_them(tmp_path: Path) -> None:
    contexts: list[ProcessContext] = []
    thread = threading.Thread(target=lambda: contexts.append(_started(functions.wait_for_file, tmp_path / "go")))
    thread.start()
    thread.join()
    assert contexts[0].join(0.2) is False
    functions.write(tmp_path / "go")
    _join_all(contexts[0])

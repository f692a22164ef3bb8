"""Start: errors of a start, after which nothing is left."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from elasticjob_agent.spawn import ProcessContext, ProcessRaisedException, spawn, start_processes
from tests.integration.spawn import functions

METHODS = ["spawn", "fork", "forkserver"]


class _Nth:
    """Can be pickled `bad` times, so that the failure is that of process `bad`."""

    def __init__(self, bad: int) -> None:
        self.left = bad

    def __reduce__(self) -> tuple[object, ...]:
        if self.left == 0:
            raise TypeError("cannot pickle this one")
        self.left -= 1
        return str, ()


def _open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_b_003_17_spawn_warns_of_another_start_method_and_still_spawns(tmp_path: Path) -> None:
    with pytest.warns(FutureWarning, match="start_processes") as caught:
        spawn(functions.note_parent, (tmp_path,), start_method="fork")
    assert caught[0].filename == __file__
    assert int((tmp_path / "parent of 0").read_text()) != os.getpid()


@pytest.mark.parametrize(
    ("method", "value"), [("spawn", "1"), *(("forkserver", value) for value in ("1", "0", "true", None))]
)
def test_b_003_22_slot_i_holds_process_i_whether_started_in_parallel_or_not(
    tmp_path: Path, method: str, value: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TORCH_MP_PARALLEL_START", raising=False)
    if value is not None:
        monkeypatch.setenv("TORCH_MP_PARALLEL_START", value)
    context = start_processes(functions.note_pid, args=(tmp_path,), nprocs=8, join=False, start_method=method)
    assert context is not None
    while not context.join():
        pass
    assert [int((tmp_path / f"pid of {index}").read_text()) for index in range(8)] == context.pids()


def test_b_003_22_in_parallel_no_process_waits_for_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_MP_PARALLEL_START", "1")
    start_processes(functions.meet, args=(tmp_path, 8), nprocs=8, start_method="forkserver")


@pytest.mark.parametrize("bad", [0, 2])
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_b_003_24_an_error_of_pickling_is_raised_in_the_caller_and_nothing_is_left(method: str, bad: int) -> None:
    threads, fds = threading.active_count(), _open_descriptors()
    with pytest.raises(TypeError, match="cannot pickle this one"):
        start_processes(functions.nothing, args=(_Nth(bad),), nprocs=4, start_method=method)
    assert (threading.active_count(), _open_descriptors()) == (threads, fds)


def test_b_003_24_a_local_function_cannot_be_spawned() -> None:
    with pytest.raises(Exception, match="pickle"):
        start_processes(lambda _: None, nprocs=2)


def test_k_003_05_a_process_that_cannot_be_pickled_leaves_no_earlier_one_running(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TORCH_MP_PARALLEL_START", "0")
    with pytest.raises(TypeError, match="cannot pickle this one"):
        start_processes(functions.hang, args=(_Nth(2),), nprocs=4, start_method="forkserver")


def test_b_003_23_a_failed_start_in_parallel_leaves_none_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_MP_PARALLEL_START", "1")
    with pytest.raises(TypeError, match="cannot pickle this one"):
        start_processes(functions.hang, args=(_Nth(5),), nprocs=8, start_method="forkserver")


@pytest.mark.parametrize("method", METHODS)
def test_the_value_of_a_function_is_discarded_and_need_not_be_picklable(method: str) -> None:
    start_processes(functions.return_unpicklable, start_method=method)


def test_no_start_method_is_the_default_of_multiprocessing(tmp_path: Path) -> None:
    context = start_processes(functions.note_pid, args=(tmp_path,), nprocs=1, join=False, start_method=None)
    assert context is not None
    while not context.join():
        pass
    assert int((tmp_path / "pid of 0").read_text()) == context.pids()[0]


@pytest.mark.parametrize("default", METHODS)
def test_the_default_of_multiprocessing_is_what_was_set_there(default: str) -> None:
    program = (
        "import multiprocessing; from elasticjob_agent.supervisor import resolve_method\n"
        f"multiprocessing.set_start_method({default!r}); print(resolve_method(None), resolve_method('spawn'))"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout.split() == [default, "spawn"]


def test_an_unknown_start_method_is_a_value_error_naming_those_there_are() -> None:
    with pytest.raises(ValueError, match="threads"):
        start_processes(functions.nothing, start_method="threads")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("daemon", [True, False])
def test_b_003_26_the_daemon_flag_reaches_the_processes(tmp_path: Path, method: str, daemon: bool) -> None:  # noqa: FBT001 - a parameter
    start_processes(functions.record_daemon_flag, args=(tmp_path,), daemon=daemon, start_method=method)
    assert (tmp_path / "daemon 0").read_text() == str(daemon)


@pytest.mark.parametrize("method", METHODS)
def test_b_003_26_a_daemon_that_starts_processes_fails_with_a_clear_error(method: str) -> None:
    with pytest.raises(ProcessRaisedException, match="daemonic processes are not allowed to have children"):
        start_processes(functions.start_another, daemon=True, start_method=method)


def test_k_003_09_threads_may_start_processes_by_every_method_at_once() -> None:
    contexts: list[ProcessContext | None] = []

    def start(method: str) -> None:
        contexts.append(start_processes(functions.nothing, nprocs=2, join=False, start_method=method))

    threads = [threading.Thread(target=start, args=(method,)) for method in METHODS * 2]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(contexts) == len(threads)
    for context in contexts:
        assert context is not None
        while not context.join():
            pass

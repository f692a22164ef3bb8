"""Signals to the launching process, and its end: no worker and no process of a worker is ever left."""

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from elasticjob_agent.launch import MainProcessError, WorkerError, launch
from testing.waiting import eventually, scaled
from tests.integration.launch import functions
from tests.integration.supervisor.launching import Script

_BOTH = [signal.SIGTERM, signal.SIGINT]


def _alive(folder: Path) -> list[int]:
    """Return the recorded processes that live."""
    pids = [int(pid) for file in folder.glob("tree ?") for pid in file.read_text().split()]
    return [pid for pid in pids if _state(pid) not in ("", "Z")]


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")")[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """Check after each test that the handlers are restored: B-002-16."""
    before = [signal.getsignal(each) for each in _BOTH]
    yield
    assert [signal.getsignal(each) for each in _BOTH] == before


def _when_there(folder: Path, count: int, signum: int) -> threading.Thread:
    """Signal this process when so many workers have recorded themselves."""

    def act() -> None:
        eventually(lambda: len(list(folder.glob("tree ?"))) == count, within_s=30, what="workers")
        os.kill(os.getpid(), signum)

    thread = threading.Thread(target=act)
    thread.start()
    return thread


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
@pytest.mark.parametrize("signum", _BOTH)
def test_b_002_11_a_signal_ends_all_workers_and_grandchildren_before_it_is_raised(
    tmp_path: Path, signum: signal.Signals, method: str
) -> None:
    thread = _when_there(tmp_path, 2, signum)
    with pytest.raises(MainProcessError) as caught:
        launch(functions.with_tree, tmp_path, 2, start_method=method)
    assert _alive(tmp_path) == []
    thread.join()
    assert (caught.value.signal_no, str(caught.value).split()[0]) == (signum, signum.name)


def test_k_002_01_grandchildren_of_workers_that_ended_with_0_are_ended_too(tmp_path: Path) -> None:
    launch(functions.leave_tree, tmp_path, 2, start_method="fork")
    assert len(list(tmp_path.glob("tree ?"))) == 2
    assert _alive(tmp_path) == []


def test_b_002_15_a_worker_that_ignores_sigterm_is_killed_after_shutdown_timeout(tmp_path: Path) -> None:
    with pytest.raises(WorkerError, match=r"worker\[0\] failed with exitcode=3"):
        launch(functions.fail_beside_stubborn, tmp_path, 2, shutdown_timeout=0.2, start_method="fork")
    assert _alive(tmp_path) == []


def test_k_002_04_workers_have_their_grace_and_are_reaped_before_the_error(tmp_path: Path) -> None:
    with pytest.raises(WorkerError):
        launch(functions.fail_beside_graceful, tmp_path, 2, shutdown_timeout=30, start_method="fork")
    assert (tmp_path / "saved").exists()
    assert _state(int((tmp_path / "tree 1").read_text())) == ""


def test_b_002_13_a_second_signal_while_stopping_kills_at_once(tmp_path: Path) -> None:
    with pytest.raises(MainProcessError, match="SIGTERM"):
        launch(functions.signal_main_twice, (os.getpid(), tmp_path), 2, shutdown_timeout=100, start_method="fork")
    assert _alive(tmp_path) == []


def test_b_002_12_a_signal_before_the_first_worker_starts_none(tmp_path: Path, script: Script) -> None:
    program = script(
        "from elasticjob_agent.net.ports import ReservedPort\n"
        "release = ReservedPort.release\n"
        "def signalled(port):\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    release(port)\n"
        "ReservedPort.release = signalled\n"
        "try: launch(functions.note, folder, 2, start_method='fork')\n"
        "except MainProcessError as error: print(error.signal_no)\n"
    )
    assert program.communicate(timeout=scaled(60))[0].split() == ["15"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_b_002_12_a_signal_between_two_starts_leaves_no_orphan(method: str) -> None:
    with pytest.raises(MainProcessError, match="SIGTERM"):
        launch(functions.signal_main, (os.getpid(), signal.SIGTERM), 8, start_method=method)


def test_b_002_12_a_signal_of_the_last_worker_s_last_act_is_not_ignored() -> None:
    with pytest.raises(MainProcessError, match="SIGTERM"):
        launch(functions.signal_main_and_end, (os.getpid(), signal.SIGTERM), 1, start_method="fork")


def test_b_002_14_ctrl_c_in_a_terminal_is_one_error_without_other_output(tmp_path: Path, script: Script) -> None:
    program = script(
        "os.setpgid(0, 0)\n"
        "try: launch(functions.with_tree, folder, 4, start_method='fork')\n"
        "except MainProcessError as error: print(error)\n"
    )
    eventually(lambda: len(list(tmp_path.glob("tree ?"))) == 4, within_s=30, what="4 workers")
    os.killpg(program.pid, signal.SIGINT)
    out, err = program.communicate(timeout=scaled(60))
    assert (out, err) == ("SIGINT received, exiting due to Interrupt.\n", "")
    assert _alive(tmp_path) == []


@dataclass(frozen=True)
class _Way:
    """A launch and its error, if any."""

    function: Callable[[Any], object]
    args: object = None
    method: str = "fork"
    error: type[Exception] | None = None


_WAYS_OUT = {
    "success": _Way(functions.nothing),
    "worker error": _Way(functions.raise_error, error=WorkerError),
    "signal": _Way(functions.signal_main, (os.getpid(), signal.SIGINT), error=MainProcessError),
    "start failure": _Way(lambda _: None, method="spawn", error=Exception),
}


@pytest.mark.parametrize("way", _WAYS_OUT.values(), ids=_WAYS_OUT)
def test_k_002_05_previous_handlers_are_restored_after_every_end(way: _Way) -> None:
    def mine(*_: object) -> None:
        raise AssertionError("this signal was for the launch")

    before = [signal.signal(each, mine) for each in _BOTH]
    try:
        with pytest.raises(way.error) if way.error else contextlib.nullcontext():
            launch(way.function, way.args, 1, start_method=way.method)
        assert [signal.getsignal(each) for each in _BOTH] == [mine, mine]
    finally:
        for each, handler in zip(_BOTH, before, strict=True):
            signal.signal(each, handler)


def test_b_002_16_a_handler_of_the_caller_is_called_again_after_the_launch() -> None:
    got: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: got.append(number))
    try:
        launch(functions.nothing, None, 1, start_method="fork")
        signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert got == [signal.SIGTERM]


def test_b_002_17_off_the_main_thread_it_works_without_handlers_and_warns_once(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="main thread") as caught, ThreadPoolExecutor() as pool:
        pool.submit(launch, functions.note, tmp_path, 1, start_method="fork").result()
    assert len(caught) == 1
    assert (tmp_path / "0").exists()


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_b_002_20_workers_end_with_a_killed_main_process(tmp_path: Path, script: Script, method: str) -> None:
    program = script(f"launch(functions.with_tree, folder, 2, start_method={method!r})")
    eventually(lambda: len(list(tmp_path.glob("tree ?"))) == 2, within_s=30, what="2 workers")
    program.kill()
    eventually(lambda: not _alive(tmp_path), within_s=30, what="the end of the workers")

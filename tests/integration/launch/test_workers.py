"""The environment of workers, and the effect of their ends on the launch."""

import functools
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from elasticjob_agent.launch import WorkerError, launch
from tests.integration.launch import functions

METHODS = ["spawn", "fork", "forkserver"]


class _Callable:
    def __call__(self, how: dict[int, int]) -> None:
        functions.exit_with(how)


def _variables(folder: Path) -> list[list[str]]:
    return [path.read_text().split() for path in sorted(folder.iterdir())]


def _worker_error(function: object, args: object, nprocs: int, **options: object) -> WorkerError:
    with pytest.raises(WorkerError) as caught:
        launch(function, args, nprocs, **options)  # type: ignore[arg-type]
    return caught.value


@pytest.mark.parametrize("method", METHODS)
def test_b_002_01_four_workers_get_their_ranks_and_one_master(tmp_path: Path, method: str) -> None:
    launch(functions.note, tmp_path, 4, start_method=method)
    found = _variables(tmp_path)
    assert [each[:4] for each in found] == [["4", str(rank), str(rank), "4"] for rank in range(4)]
    assert len({(address, port) for *_, address, port in found}) == 1
    assert found[0][4] == "localhost"


def test_b_002_02_a_module_of_the_user_reads_its_rank_as_it_is_imported(tmp_path: Path) -> None:
    launch(functions.note_module, tmp_path, 2, start_method="spawn")
    assert [(tmp_path / str(rank)).read_text() for rank in range(2)] == ["0", "1"]


@pytest.mark.parametrize("args", [(1, 2), {"lr": 0.1}, SimpleNamespace(lr=0.1), None], ids=type)
def test_b_002_03_args_arrive_as_one_object(tmp_path: Path, args: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOLDER", str(tmp_path))
    launch(functions.note_args, args, 1, start_method="spawn")
    assert (tmp_path / "0").read_text() == repr(args)


@pytest.mark.parametrize("method", METHODS)
def test_b_002_04_the_parent_s_environment_never_changes_not_even_for_another_thread(
    tmp_path: Path, method: str
) -> None:
    before, checks, ended = dict(os.environ), [], threading.Event()

    def compare() -> None:
        while not ended.wait(0.001):
            checks.append(dict(os.environ) == before)

    thread = threading.Thread(target=compare)
    thread.start()
    launch(functions.note, tmp_path, 2, start_method=method)
    ended.set()
    thread.join()
    assert set(checks) == {True}
    assert dict(os.environ) == before


def test_k_002_06_under_forkserver_each_worker_has_its_own_rank(tmp_path: Path) -> None:
    launch(functions.note, tmp_path, 3, start_method="forkserver")
    assert [each[1] for each in _variables(tmp_path)] == ["0", "1", "2"]


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_k_002_07_a_start_that_fails_leaves_the_environment_unchanged(method: str) -> None:
    before = dict(os.environ)
    with pytest.raises(Exception, match="pickle"):
        launch(lambda _: None, None, 2, start_method=method)
    assert dict(os.environ) == before


def test_b_002_05_a_given_master_is_passed_to_the_workers(tmp_path: Path) -> None:
    launch(functions.note, tmp_path, 2, "10.1.2.3", 29500, start_method="fork")
    assert {(address, port) for *_, address, port in _variables(tmp_path)} == {("10.1.2.3", "29500")}


def test_b_002_05_two_launches_at_once_get_ports_of_their_own_that_rank_0_can_bind(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="main thread"), ThreadPoolExecutor() as pool:
        list(pool.map(lambda _: launch(functions.bind, tmp_path, 1, start_method="fork"), range(2)))
    assert len(list(tmp_path.iterdir())) == 2


def test_b_002_06_the_worker_that_failed_is_named_and_the_error_comes_at_once(tmp_path: Path) -> None:
    error = _worker_error(functions.exit_when_read, tmp_path, 4, start_method="fork")
    raised_s = time.monotonic()
    assert (error.exitcode, error.worker_id, str(error)) == (7, 2, "worker[2] failed with exitcode=7")
    assert "exit_when_read" in error.args[0]
    assert "7" in error.args[0]
    assert raised_s - float((tmp_path / "at").read_text()) < 20


@pytest.mark.parametrize("code", [1, 2, 77, 127, 128, 255])
def test_b_002_07_exit_codes_arrive(code: int) -> None:
    assert _worker_error(functions.exit_with, {0: code}, 1, start_method="fork").exitcode == code


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGSEGV])
def test_b_002_07_signals_arrive_as_negative_codes(signum: int) -> None:
    assert _worker_error(functions.die, signum, 1, start_method="fork").exitcode == -signum


@pytest.mark.parametrize("method", METHODS)
def test_b_002_07_a_worker_that_raises_shows_its_traceback_and_has_code_1(
    method: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert _worker_error(functions.raise_error, None, 1, start_method=method).exitcode == 1
    shown = capfd.readouterr().err
    assert "in raise_error" in shown
    assert shown.rstrip().endswith("ValueError: this worker raises")


@pytest.mark.parametrize("order", [[1, 0], [0, 1]])
def test_k_002_10_the_worker_that_ended_first_is_reported(tmp_path: Path, order: list[int]) -> None:
    assert _worker_error(functions.end_in_turn, (tmp_path, order), 2, start_method="fork").worker_id == order[0]


def test_b_002_08_of_simultaneous_failures_the_first_is_reported(tmp_path: Path) -> None:
    error = _worker_error(functions.end_in_turn, (tmp_path, [2, 1, 0]), 3, start_method="fork")
    assert (error.worker_id, error.exitcode) == (2, 3)


def test_b_002_09_every_way_to_exit_with_0_is_success() -> None:
    launch(functions.succeed_oddly, None, 3, start_method="fork")


def test_b_002_09_a_keyboard_interrupt_in_one_worker_alone_is_a_failure() -> None:
    assert _worker_error(functions.interrupt, None, 2, start_method="fork").worker_id == 0


@pytest.mark.parametrize("nprocs", [0, 1, 2])
def test_b_002_10_any_number_of_workers_may_succeed(tmp_path: Path, nprocs: int) -> None:
    launch(functions.note, tmp_path, nprocs, start_method="fork")
    assert len(list(tmp_path.iterdir())) == nprocs


@pytest.mark.parametrize("method", METHODS)
def test_a_worker_may_launch_workers_of_its_own(tmp_path: Path, method: str) -> None:
    launch(functions.launch_inside, (tmp_path, method), 2, start_method=method)
    assert [(tmp_path / f"{outer}.{inner}").exists() for outer in range(2) for inner in range(2)] == [True] * 4


def test_k_002_03_no_time_is_lost_to_polling(tmp_path: Path) -> None:
    took_s = []
    for number in range(5):
        folder = tmp_path / str(number)
        folder.mkdir()
        began_s = time.monotonic()
        launch(functions.note, folder, 1, start_method="fork")
        took_s.append(time.monotonic() - began_s)
    assert min(took_s) < 1


@pytest.mark.parametrize("function", [functools.partial(functions.exit_with), _Callable()], ids=["partial", "object"])
def test_b_002_19_a_partial_or_callable_object_that_fails_is_a_worker_error(function: object) -> None:
    error = _worker_error(function, {0: 4}, 1, start_method="fork")
    assert (error.exitcode, error.worker_id) == (4, 0)


def test_k_002_02_ranks_of_the_second_of_two_nodes(tmp_path: Path) -> None:
    launch(functions.note, tmp_path, 2, master_port=29500, nnodes=2, node_rank=1, start_method="fork")
    assert [each[:3] for each in _variables(tmp_path)] == [["4", "2", "0"], ["4", "3", "1"]]


@pytest.mark.parametrize("options", [{"nnodes": 2}, {"node_rank": 1}, {"nprocs": -1}])
def test_b_002_24_bad_combinations_start_nothing(options: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"nnodes|node_rank|nprocs"):
        launch(functions.hang, None, **{"nprocs": 1, **options})  # type: ignore[arg-type]

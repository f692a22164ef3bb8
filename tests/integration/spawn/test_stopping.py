"""The end of the other processes after a failure, and of all when the parent ends."""

import os
import signal
from pathlib import Path

import pytest

from elasticjob_agent.spawn import ProcessContext, ProcessExitedException, start_processes
from testing.waiting import eventually, scaled
from tests.integration.spawn import functions
from tests.integration.supervisor.launching import Script

_PROGRAM = """
import os, signal, sys, threading
from pathlib import Path
from elasticjob_agent.spawn import start_processes
from tests.integration.spawn import functions
folder = Path({folder!r})
if __name__ == "__main__":
    {body}
"""


def _program(folder: Path, body: str) -> str:
    return _PROGRAM.format(folder=str(folder), body=body)


def _started(function: object, *args: object, nprocs: int = 2) -> ProcessContext:
    context = start_processes(function, args=args, nprocs=nprocs, join=False, start_method="fork")  # type: ignore[arg-type]
    assert context is not None
    return context


def _alive(file: Path) -> bool:
    stat = Path("/proc", file.read_text(), "stat")
    try:
        return stat.read_text().rsplit(")")[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_b_003_13_without_a_grace_period_siblings_get_sigterm_at_once(tmp_path: Path) -> None:
    context = _started(functions.fail_beside, tmp_path, "ends at SIGTERM")
    with pytest.raises(ProcessExitedException, match="process 0 terminated with exit code 3"):
        context.join()
    assert (tmp_path / "got SIGTERM").exists()


def test_b_003_14_a_sibling_that_ends_within_the_grace_period_is_not_signalled(tmp_path: Path) -> None:
    context = _started(functions.fail_beside, tmp_path, "ends by itself")
    with pytest.raises(ProcessExitedException, match="process 0 "):
        context.join(grace_period=30)
    assert not (tmp_path / "got SIGTERM").exists()
    assert context.processes[1].exitcode == 0


@pytest.mark.parametrize("grace_period", [0, 0.2])
def test_b_003_14_a_sibling_that_ignores_sigterm_is_killed_after_the_grace_period(
    tmp_path: Path, grace_period: float
) -> None:
    context = _started(functions.fail_beside, tmp_path, "stubborn")
    with pytest.raises(ProcessExitedException, match="process 0 "):
        context.join(grace_period=grace_period)
    assert context.processes[1].exitcode == -signal.SIGKILL
    assert (tmp_path / "got SIGTERM").exists() == bool(grace_period)


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGKILL])
def test_b_003_18_processes_of_a_process_end_with_it(tmp_path: Path, signum: signal.Signals) -> None:
    context = _started(functions.nested, tmp_path, nprocs=1)
    leaves = [tmp_path / f"leaf {index}" for index in range(2)]
    eventually(lambda: all(leaf.exists() for leaf in leaves), within_s=30, what="the leaves")
    os.kill(context.pids()[0], signum)
    with pytest.raises(ProcessExitedException, match=signum.name):
        context.join()
    eventually(lambda: not any(map(_alive, leaves)), within_s=30, what="the end of the leaves")


def test_b_003_19_a_parent_that_dies_as_it_starts_processes_leaves_none(tmp_path: Path, script: Script) -> None:
    body = (
        "die = lambda: (functions.wait_for((folder / 'leaf 0').exists), os.kill(os.getpid(), signal.SIGKILL))\n    "
        "threading.Thread(target=die).start()\n    "
        "while True: start_processes("
        "functions.record_pid_and_hang, args=(folder,), nprocs=4, join=False, start_method='fork')"
    )
    program = script(_program(tmp_path, body))
    assert program.wait(scaled(60)) == -signal.SIGKILL


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_b_003_21_processes_end_with_a_killed_parent(tmp_path: Path, script: Script, method: str) -> None:
    call = f"start_processes(functions.record_pid_and_hang, args=(folder,), nprocs=2, start_method={method!r})"
    program = script(_program(tmp_path, call))
    leaves = [tmp_path / f"leaf {index}" for index in range(2)]
    eventually(lambda: all(leaf.exists() for leaf in leaves), within_s=30, what="two processes")
    program.kill()
    eventually(lambda: not any(map(_alive, leaves)), within_s=30, what="the end of the processes")


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_b_003_33_an_exit_without_a_join_waits_for_processes_that_are_no_daemons(
    tmp_path: Path, script: Script, method: str
) -> None:
    go, done = tmp_path / "go", tmp_path / "1"
    call = f"start_processes(functions.note_when, args=(folder,), nprocs=2, join=False, start_method={method!r})"
    program = script(_program(tmp_path, call))
    eventually((tmp_path / "begun 1").exists, within_s=30, what="process 1")
    functions.write(go)
    assert program.wait(scaled(60)) == 0
    assert done.exists()


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_b_003_33_an_exit_without_a_join_kills_daemons(tmp_path: Path, script: Script, method: str) -> None:
    call = (
        "start_processes(functions.record_pid_and_hang, args=(folder,), nprocs=2, join=False, daemon=True, "
        f"start_method={method!r})\n    functions.wait_for(lambda: len(list(folder.glob('leaf ?'))) == 2)"
    )
    program = script(_program(tmp_path, call))
    assert program.wait(scaled(60)) == 0
    assert [_alive(leaf) for leaf in tmp_path.glob("leaf ?")] == [False, False]


@pytest.mark.parametrize("join", [True, False])
def test_b_003_30_a_program_that_ctrl_c_ends_leaves_no_process(tmp_path: Path, script: Script, join: bool) -> None:  # noqa: FBT001 - a parameter
    call = f"start_processes(functions.record_pid_and_hang, args=(folder,), nprocs=2, join={join}, start_method='fork')"
    program = script(_program(tmp_path, call if join else f"{call}.join()"))
    leaves = [tmp_path / f"leaf {index}" for index in range(2)]
    eventually(lambda: all(leaf.exists() for leaf in leaves), within_s=30, what="two processes")
    program.send_signal(signal.SIGINT)
    assert program.wait(scaled(60)) == -signal.SIGINT
    assert not any(map(_alive, leaves))


def test_b_003_32_a_frozen_sibling_does_not_block_the_cleanup(tmp_path: Path) -> None:
    with pytest.raises(ProcessExitedException, match="process 0 terminated with exit code 4"):
        _started(functions.stop_itself, tmp_path).join(grace_period=0.5)
    assert not _alive(tmp_path / "frozen")


@pytest.mark.parametrize("fail", [True, False])
def test_k_003_08_grandchildren_are_ended_after_the_last_process(tmp_path: Path, fail: bool) -> None:  # noqa: FBT001 - a parameter
    context = _started(functions.leave_grandchild, tmp_path, fail)
    if fail:
        with pytest.raises(ProcessExitedException, match="exit code 5"):
            context.join()
    else:
        while not context.join():
            pass
    grandchildren = list(tmp_path.glob("grandchild of ?"))
    assert grandchildren
    assert not any(map(_alive, grandchildren))

"""Decisions of the context, on processes with the standard library's interface that a test ends."""

import os
import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest

from elasticjob_agent.spawn.context import ProcessContext, SpawnContext
from elasticjob_agent.spawn.errors import ProcessExitedException, ProcessRaisedException


class _Process:
    """A process that only the test ends: an in-memory replacement with a real descriptor."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.exitcode: int | None = None
        self.ended_at_s = 0.0
        self.got: list[str] = []
        self.sentinel, self._alive = os.pipe()

    def end(self, code: int, *, at_s: float = 0.0) -> None:
        if self.exitcode is None:
            self.exitcode, self.ended_at_s = code, at_s
            os.close(self._alive)

    def is_alive(self) -> bool:
        return self.exitcode is None

    def join(self, timeout: float | None = None) -> None:
        del timeout
        assert self.exitcode is not None

    def terminate(self) -> None:
        self.got.append("SIGTERM")
        self.end(-15)

    def kill(self) -> None:
        self.got.append("SIGKILL")
        self.end(-9)

    def close(self) -> None:
        self.end(0)
        os.close(self.sentinel)


class _Stubborn(_Process):
    """A process that survives SIGTERM."""

    def terminate(self) -> None:
        self.got.append("SIGTERM")


@pytest.fixture
def processes() -> Iterator[list[_Process]]:
    processes = [_Process(100), _Process(101), _Stubborn(102)]
    yield processes
    for each in processes:
        each.close()


@pytest.fixture
def context(processes: list[_Process]) -> ProcessContext:
    return ProcessContext(processes, [""] * len(processes))


def test_b_003_02_join_is_false_until_all_have_ended_and_true_ever_after(
    context: ProcessContext, processes: list[_Process]
) -> None:
    answers = []
    for process in processes:
        process.end(0)
        answers.append(context.join())
    assert answers == [False, False, True]
    assert [context.join(), context.join(timeout=0)] == [True, True]


def test_sentinels_lead_to_indices_and_shrink(context: ProcessContext, processes: list[_Process]) -> None:
    assert context.sentinels == {process.sentinel: index for index, process in enumerate(processes)}
    processes[1].end(0)
    context.join()
    assert list(context.sentinels.values()) == [0, 2]


@pytest.mark.parametrize("timeout", [0, -1])
def test_b_003_03_a_check_without_waiting_returns_false(context: ProcessContext, timeout: float) -> None:
    assert context.join(timeout) is False


def test_b_003_13_siblings_get_sigterm_at_once_and_sigkill_if_they_survive_it(
    context: ProcessContext, processes: list[_Process]
) -> None:
    processes[0].end(3)
    with pytest.raises(ProcessExitedException, match="process 0 terminated with exit code 3"):
        context.join(grace_period=0)
    assert [each.got for each in processes] == [[], ["SIGTERM"], ["SIGTERM", "SIGKILL"]]


def test_processes_ended_after_a_failure_are_logged_with_torchs_text(
    context: ProcessContext, processes: list[_Process], caplog: pytest.LogCaptureFixture
) -> None:
    processes[0].end(3)
    with pytest.raises(ProcessExitedException):
        context.join(grace_period=0)
    assert caplog.messages == [f"Terminating process {each.pid} via signal SIGTERM" for each in processes[1:]]


def test_k_003_02_every_later_join_raises_the_same_and_blames_no_sibling(
    context: ProcessContext, processes: list[_Process]
) -> None:
    processes[1].end(-11)
    errors = []
    for _ in range(3):
        with pytest.raises(ProcessExitedException) as caught:
            context.join(grace_period=0)
        errors.append(caught.value)
    assert len({id(error) for error in errors}) == 1
    assert (errors[0].error_index, errors[0].error_pid, errors[0].signal_name) == (1, 101, "SIGSEGV")


def test_k_003_06_the_failure_is_that_of_the_process_that_ended_first(
    context: ProcessContext, processes: list[_Process]
) -> None:
    for process, at_s in zip(processes, (3.0, 2.0, 1.0), strict=True):
        process.end(1, at_s=at_s)
    with pytest.raises(ProcessExitedException, match="process 2 "):
        context.join()


def test_b_003_10_a_failure_after_a_success_is_reported(context: ProcessContext, processes: list[_Process]) -> None:
    processes[0].end(0)
    assert context.join() is False
    processes[1].end(2)
    with pytest.raises(ProcessExitedException, match="process 1 "):
        context.join(grace_period=0)


def test_k_003_04_a_traceback_is_read_as_text_and_never_unpickled(tmp_path: Path, processes: list[_Process]) -> None:
    file = tmp_path / "error"
    file.write_bytes(pickle.dumps("no traceback"))
    context = ProcessContext(processes, [str(file), "", ""])
    processes[0].end(1)
    with pytest.raises(ProcessRaisedException) as caught:
        context.join(grace_period=0)
    assert file.read_bytes().decode(errors="replace").rstrip() in caught.value.msg


def test_b_003_27_pids_are_in_index_order_also_after_the_end(
    context: ProcessContext, processes: list[_Process]
) -> None:
    before = context.pids()
    for process in processes:
        process.end(0)
    while not context.join():
        pass
    assert before == context.pids() == [100, 101, 102]


def test_b_003_17_the_former_name_warns_at_the_caller_s_line(processes: list[_Process]) -> None:
    with pytest.warns(UserWarning, match="ProcessContext") as caught:
        context = SpawnContext(processes, [""] * 3)
    assert caught[0].filename == __file__
    assert isinstance(context, ProcessContext)

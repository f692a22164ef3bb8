"""The record of a worker's failure, which the whole job reads."""

import contextlib
import socket
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from elasticjob_agent.host.oom import OomCounter
from elasticjob_agent.rendezvous.protocol.root_cause import is_own_failure
from elasticjob_agent.supervisor import CommandNotFound, Exit
from elasticjob_agent.workers.error_file import ErrorFileContents, StderrTail
from elasticjob_agent.workers.failure_recorder import (
    ERROR_FILE_SLACK_S,
    FailureRecorder,
)
from elasticjob_api.records import WorkerFailure
from testing.worker_group import ONE_WORKER

HOST = "127.0.0.1"
START_NS = 1_700_000_000_000_000_000
IN_USE = b"OSError: [Errno 98] Address already in use\n"
PLACE = replace(ONE_WORKER, nproc=2, world_size=2, role_world_size=2)


@dataclass
class Case:
    """One node's workers, started at 100 s."""

    folder: Path
    has_progress: bool = False
    has_output: bool = False

    def __post_init__(self) -> None:
        self.kills(0)
        self.recorder = FailureRecorder(
            pod="pod-1",
            host="host-1",
            memory=OomCounter(self.folder),
            has_progress=lambda: self.has_progress,
            has_output=lambda: self.has_output,
        )
        self.recorder.round_started(100.0)

    def kills(self, count: int) -> None:
        """Set the kills that the cgroup counts."""
        (self.folder / "memory.events").write_text(f"oom_kill {count}\n")

    def failure(
        self, code: int, *, after_s: float = 1.0, stderr: bytes = b"", quiet_s: float = 0.0, **fields: Any
    ) -> WorkerFailure:
        """Return the record of a worker that ended in this way."""
        by_us, dumped = fields.pop("stopped_by_us", False), fields.pop("core_dumped", False)
        at_ns = START_NS + int(after_s * 1e9)
        end = Exit(code=code, at_s=100 + after_s, wall_ns=at_ns, stopped_by_us=by_us, core_dumped=dumped)
        tail = StderrTail(b"", clock=lambda: end.at_s - quiet_s)
        tail.add(stderr)
        return self.recorder.record(
            replace(PLACE, master_port=fields.pop("master_port", PLACE.master_port)),
            fields.pop("local_rank", 0),
            end,
            pid=7,
            started_at_ns=START_NS,
            reported=fields.pop("error_file", ErrorFileContents()),
            tail=tail,
        )


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path)


def test_the_error_file_comes_before_stderr_and_both_are_kept(case: Case) -> None:
    failure = case.failure(1, stderr=b"Traceback\nValueError: b\n", error_file=ErrorFileContents("ValueError: a"))
    assert (failure.message, failure.stderr) == ("ValueError: a", "Traceback\nValueError: b")


def test_without_an_error_file_the_message_is_the_last_line(case: Case) -> None:
    assert case.failure(1, stderr=b"Traceback\nValueError: b\n").message == "ValueError: b"


def test_a_signal_has_no_message_but_stderr_is_kept(case: Case) -> None:
    failure = case.failure(-11, stderr=b"loading\n")
    assert (failure.signal, failure.message, failure.stderr) == ("SIGSEGV", "", "loading")


def test_a_core_dump_is_named_if_there_is_no_other_message(case: Case) -> None:
    assert case.failure(-11, core_dumped=True).message == "core dumped"
    assert (
        case.failure(-6, core_dumped=True, error_file=ErrorFileContents("RuntimeError: x")).message == "RuntimeError: x"
    )


@pytest.mark.parametrize(
    ("reported_ns", "time_ns"),
    [
        pytest.param(START_NS + 500_000_000, START_NS + 500_000_000, id="within its life"),
        pytest.param(START_NS - 900_000_000, START_NS - 900_000_000, id="whole seconds are rounded down"),
        pytest.param(START_NS - 2_000_000_000, START_NS + 1_000_000_000, id="before its life"),
        pytest.param(START_NS + 3_000_000_000, START_NS + 1_000_000_000, id="after its life"),
        pytest.param(0, START_NS + 1_000_000_000, id="not reported"),
    ],
)
def test_time_of_the_failure(reported_ns: int, time_ns: int, case: Case) -> None:
    assert case.failure(1, error_file=ErrorFileContents("x", reported_ns)).time_ns == time_ns


def test_a_worker_that_ends_soon_without_a_sign_of_work_failed_to_start(case: Case) -> None:
    assert case.failure(1, after_s=2.0).startup
    assert not case.failure(1, after_s=4.0).startup
    case.has_output = True
    assert not case.failure(1, after_s=2.0).startup


def test_a_worker_with_progress_since_the_start_has_started(case: Case) -> None:
    case.has_progress = True
    assert not case.failure(1).startup


def test_a_late_import_error_without_progress_is_a_failed_start(case: Case) -> None:
    assert case.failure(1, after_s=60, stderr=b"ModuleNotFoundError: No module named 'x'\n").startup
    case.has_progress = True
    assert not case.failure(1, after_s=60, stderr=b"ModuleNotFoundError: No module named 'x'\n").startup


def test_a_command_that_is_missing_never_started(case: Case) -> None:
    failure = case.recorder.record_start_error(
        replace(PLACE, base_rank=3), CommandNotFound("rank 3: no such command"), START_NS
    )
    assert (failure.rank, failure.exit_code, failure.startup, failure.pid) == (3, 127, True, 0)


def test_a_kill_after_a_counted_one_is_out_of_memory(case: Case) -> None:
    assert not case.failure(-9).oom
    case.kills(1)
    assert case.failure(-9).oom
    assert not case.failure(1).oom
    assert not case.failure(-9, stopped_by_us=True).oom


def test_kills_of_the_round_before_do_not_count(case: Case) -> None:
    case.kills(1)
    case.recorder.round_started(200.0)
    assert not case.failure(-9).oom


@contextlib.contextmanager
def listening() -> Iterator[int]:
    with socket.create_server((HOST, 0)) as server:
        yield int(server.getsockname()[1])


def test_rank_0_that_names_the_port_found_it_in_use(case: Case) -> None:
    stderr = b"RuntimeError: The server socket has failed to listen. port: 29876, code: -98, name: EADDRINUSE\n"
    assert case.failure(1, stderr=stderr).port_taken


def test_rank_0_that_names_no_port_needs_a_listener_there(case: Case) -> None:
    with listening() as port:
        assert case.failure(1, stderr=IN_USE, master_port=port).port_taken
    assert not case.failure(1, stderr=IN_USE, master_port=port).port_taken


def test_another_rank_or_error_is_no_port_conflict(case: Case) -> None:
    with listening() as port:
        assert not case.failure(1, stderr=IN_USE, master_port=port, local_rank=1).port_taken
        assert not case.failure(1, stderr=b"ValueError: x\n", master_port=port).port_taken


FULL_DISK = (
    b'Traceback (most recent call last):\n  File "train.py", line 7\nOSError: [Errno 28] No space left on device\n'
)


def test_an_exception_before_our_signal_is_the_message(case: Case) -> None:
    failure = case.failure(-15, stderr=FULL_DISK, stopped_by_us=True)
    assert (failure.message, failure.stopped_by_agent) == ("OSError: [Errno 28] No space left on device", True)
    assert is_own_failure(failure)


def test_output_after_our_signal_is_no_error_of_the_worker(case: Case) -> None:
    failure = case.failure(143, stderr=b"SIGTERM: saving\nsaved, bye\n", stopped_by_us=True)
    assert not is_own_failure(failure)


@pytest.mark.parametrize(
    ("stderr", "quiet_s"),
    [
        pytest.param(FULL_DISK + b"retrying\n", 0.0, id="more output follows the exception"),
        pytest.param(FULL_DISK, ERROR_FILE_SLACK_S, id="the exception was caught long ago"),
        pytest.param(b"saving\n", 0.0, id="other output"),
    ],
)
def test_a_worker_without_an_exception_at_our_signal_has_no_error(case: Case, stderr: bytes, quiet_s: float) -> None:
    failure = case.failure(-15, stderr=stderr, quiet_s=quiet_s, stopped_by_us=True)
    assert not is_own_failure(failure)

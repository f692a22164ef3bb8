"""A pod's status, made from the states of its containers."""

import os
from pathlib import Path
from typing import Any

import pytest

from elasticjob_cli.local.pod_status import ContainerEnd, ContainerState, LocalPodState, pod_status, termination_message

_WAITING = ContainerState("c")
_RUNNING = ContainerState("c", started_at="t1")


def _ended(code: int, **fields: str) -> ContainerState:
    return ContainerState("c", started_at="t1", ended=ContainerEnd(code=code, at="t2", **fields))


def _status(*containers: ContainerState, **fields: Any) -> dict[str, Any]:
    state = LocalPodState(start_time="t0", pod_ip="127.0.0.1", host_ip="127.0.0.1", containers=containers, **fields)
    return pod_status(state, "t3")


@pytest.mark.parametrize(
    ("containers", "phase"),
    [
        ([_WAITING], "Pending"),
        ([_RUNNING], "Running"),
        ([_RUNNING, _WAITING], "Running"),
        ([_RUNNING, _ended(0)], "Running"),
        ([_RUNNING, _ended(1)], "Running"),
        ([_ended(0), _ended(0)], "Succeeded"),
        ([_ended(0), _ended(1)], "Failed"),
        ([_ended(-9)], "Failed"),
    ],
)
def test_the_phase_is_that_of_the_containers(containers: list[ContainerState], phase: str) -> None:
    assert _status(*containers)["phase"] == phase


def test_a_failed_init_container_fails_the_pod() -> None:
    assert _status(_WAITING, init=[_ended(3)])["phase"] == "Failed"


def test_a_signal_is_shown_as_an_exit_code_and_by_its_number() -> None:
    [status] = _status(_ended(-9, message="gone"))["containerStatuses"]
    assert status["state"]["terminated"] == {
        "exitCode": 137,
        "signal": 9,
        "reason": "Error",
        "message": "gone",
        "startedAt": "t1",
        "finishedAt": "t2",
    }


def test_a_rejected_pod_has_a_reason() -> None:
    status = _status(_WAITING, failure=("FailedMount", "no room"))
    assert (status["phase"], status["reason"], status["message"]) == ("Failed", "FailedMount", "no room")


@pytest.mark.parametrize(("container", "ready"), [(_RUNNING, "True"), (_WAITING, "False"), (_ended(0), "False")])
def test_a_container_is_ready_while_it_runs(container: ContainerState, ready: str) -> None:
    assert {c["type"]: c["status"] for c in _status(container)["conditions"]}["Ready"] == ready


def test_the_termination_message_is_the_end_of_the_log(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("x" * 5000 + "end\n")
    assert termination_message(tmp_path / "log") == "x" * 4092 + "end"


def test_without_a_termination_log_the_message_is_the_end_of_the_output(tmp_path: Path) -> None:
    (tmp_path / "log").touch()
    (tmp_path / "out").write_text("Traceback\n")
    assert termination_message(tmp_path / "log", tmp_path / "err", tmp_path / "out") == "Traceback"


def test_only_a_regular_file_is_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("/etc/hostname")
    assert (termination_message(tmp_path / "fifo"), termination_message(tmp_path / "link")) == ("", "")

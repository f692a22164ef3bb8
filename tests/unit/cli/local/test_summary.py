"""The end of a run as text."""

from pathlib import Path
from typing import Any

import pytest

from elasticjob_api import codec
from elasticjob_api.records import WorkerState
from elasticjob_api.status import LastFailure
from elasticjob_cli.local.summary import describe_code, persist_lines, rank_table, summary
from tests.unit.cli.view_builders import a_node, a_report, a_view

_KILLED = LastFailure(
    time="", round=1, pod_name="j-0-abcde", node_name="local-0", rank=1, local_rank=1, exit_code=137, signal="SIGKILL"
)
_FAILURE: dict[str, Any] = codec.write(_KILLED, keep_defaults=True)
_RAISED = {**_FAILURE, "exitCode": 1, "signal": "", "message": "ValueError: no; not at all"}
_VERDICT = "rank 1 on j-0-abcde exited with code 1: ValueError: no; not at all; maxRestarts 1 is used up"
_LOGS = Path("runs/j/logs")


def test_the_summary_names_the_step_on_disk_and_what_is_lost() -> None:
    view = a_view()
    view.job = {"spec": {"keep": {"persistTo": "/ckpt"}}, "status": {"phase": "Succeeded"}}
    kept: dict[str, Any] = {"step": 8, "round": 1}
    for fields, losses in (({"persistedStep": 8}, [False]), ({"persistedStep": 7}, [False, True]), ({}, [True, True])):
        view.job["status"]["keep"] = {**kept, **fields}
        assert [is_loss for _, is_loss in persist_lines(view, now_s=0.0)] == losses
    view.job["status"]["keep"] = {}
    assert list(persist_lines(view, now_s=0.0)) == [("No step was written to /ckpt.", False)]
    view.job["status"]["phase"] = "Running"
    assert list(persist_lines(view, now_s=0.0)) == []


def test_ranks_are_listed_in_order_with_their_known_values() -> None:
    nodes = [a_node(0, rank=1, ranks="CF"), a_node(1, rank=0, ranks="RT")]
    reports = (
        a_report("j-0-abcde", ranks=(2, 3), restart_count=2, state=WorkerState.FAILED, code=-9),
        a_report("j-1-abcde", ranks=(0,), restart_count=2),
    )
    assert rank_table(a_view(*reports, nodes=nodes)).splitlines() == [
        "RANK  NODE     POD        STATE      RESTARTS  PID  EXIT",
        "0     local-1  j-1-abcde  running    2         100  -",
        "1     local-1  j-1-abcde  stopped    -         -    -",
        "2     local-0  j-0-abcde  succeeded  2         102  0",
        "3     local-0  j-0-abcde  failed     2         103  SIGKILL",
    ]


def test_a_node_outside_the_round_comes_last_without_ranks() -> None:
    nodes = [a_node(0, rank=None, ranks="P"), a_node(1, rank=0, ranks="R")]
    rows = [line.split() for line in rank_table(a_view(nodes=nodes)).splitlines()[1:]]
    assert [(row[0], row[3]) for row in rows] == [("0", "running"), ("-", "pending")]


def test_a_worker_that_succeeded_ended_with_0_whether_reported_or_not() -> None:
    assert rank_table(a_view(nodes=[a_node(0, rank=0, ranks="C")])).split()[-4:] == ["succeeded", "-", "-", "0"]


def test_no_nodes_make_no_table() -> None:
    assert rank_table(a_view()) == ""


def test_a_long_table_is_cut() -> None:
    table = rank_table(a_view(nodes=[a_node(0, rank=0, ranks="R" * 70)])).splitlines()
    assert (len(table), table[-1]) == (66, "... and 6 more")


@pytest.mark.parametrize(("code", "text"), [(None, "-"), (0, "0"), (3, "3"), (-9, "SIGKILL"), (-40, "signal 40")])
def test_codes_are_named(code: int | None, text: str) -> None:
    assert describe_code(code) == text


def test_the_summary_counts() -> None:
    view = a_view(phase="Succeeded", restarts=1, nodeLosses=2, rendezvousRound=4, lastFailure=_FAILURE)
    first, second = summary(view, elapsed_s=12.34, logs=_LOGS).splitlines()
    assert first == "Succeeded: 1 restart, 2 node losses, 4 rounds, 12.3 s"
    assert second == "last failure: rank 1 in pod j-0-abcde on local-0 was killed by SIGKILL in round 1"


def test_a_job_without_a_status_is_pending() -> None:
    assert summary(a_view(), elapsed_s=0.1, logs=_LOGS) == "Pending: no restarts, no node losses, no rounds, 0.1 s"


def test_the_summary_of_a_failed_job_has_the_limit_the_root_cause_and_its_log_once_each() -> None:
    status: dict[str, Any] = {"phase": "Failed", "reason": "MaxRestartsExceeded", "message": _VERDICT, "restarts": 1}
    lines = summary(a_view(**status, rendezvousRound=2, lastFailure=_RAISED), elapsed_s=2, logs=_LOGS).splitlines()
    assert lines == [
        "Failed: 1 restart, no node losses, 2 rounds, 2.0 s",
        "why: MaxRestartsExceeded: maxRestarts 1 is used up",
        "root cause: rank 1 in pod j-0-abcde on local-0 exited with 1 in round 1: ValueError: no; not at all",
        "its log: runs/j/logs/j-0-abcde",
    ]


def test_the_summary_of_a_command_that_cannot_be_started_has_the_cure() -> None:
    failure = {**_RAISED, "exitCode": 127, "message": "rank 1: command 'trian' not found: no folder of its PATH has it"}
    view = a_view(phase="Failed", reason="MaxRestartsExceeded", message=_VERDICT, lastFailure=failure)
    view.job["spec"] = {"template": {"spec": {"containers": [{"name": "trainer"}]}}}
    last = summary(view, elapsed_s=1, logs=_LOGS).splitlines()[-1]
    assert last.startswith("cure: Correct spec.template.spec.containers[trainer].command")


def test_a_failure_that_did_not_end_the_job_is_not_its_root_cause() -> None:
    status: dict[str, Any] = {
        "phase": "Failed",
        "reason": "DeadlineExceeded",
        "message": "60 s are over",
        "lastFailure": _RAISED,
    }
    lines = summary(a_view(**status), elapsed_s=60, logs=_LOGS).splitlines()
    assert lines[1] == "why: DeadlineExceeded: 60 s are over"
    assert lines[2].startswith("last failure: rank 1 in pod")


@pytest.mark.parametrize("message", ["rank 1 on j-0-abcde exited with code 1", "2 pods failed: one; two"])
def test_another_verdict_is_shown_unchanged(message: str) -> None:
    status: dict[str, Any] = {
        "phase": "Failed",
        "reason": "BackoffLimitExceeded",
        "message": message,
        "lastFailure": _RAISED,
    }
    assert f"why: BackoffLimitExceeded: {message}" in summary(a_view(**status), elapsed_s=1, logs=_LOGS).splitlines()


def test_a_job_that_failed_without_a_failed_worker_names_no_log() -> None:
    status: dict[str, Any] = {"phase": "Failed", "reason": "BackoffLimitExceeded", "message": "2 pods failed"}
    assert len(summary(a_view(**status), elapsed_s=1, logs=_LOGS).splitlines()) == 2

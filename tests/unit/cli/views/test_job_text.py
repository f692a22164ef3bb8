"""The description of a job in sentences: events, reasons and cures."""

from typing import Any

import pytest

from elasticjob_cli.views.job_history import HistoryEntry
from elasticjob_cli.views.job_text import describe
from elasticjob_cli.views.text import wrap_hanging
from tests.unit.cli.recorded import FAILURE, NOW_S, a_job, a_node, at


def described(job: dict[str, Any], *entries: HistoryEntry) -> list[str]:
    return describe(job, entries, now_s=NOW_S, command="elasticjob")


def test_a_running_job_after_a_failure() -> None:
    assert described(a_job(lastFailure=FAILURE)) == [
        "team/digits is running: round 2 runs with 2 of 2 nodes and 4 workers, for 39 s.",
        "The workers were restarted once because one failed; maxRestarts is 3, so 2 more would be allowed.",
        (
            "The last failure at 23:59:20 (40s ago): rank 3 in pod digits-1-abcde on n1 was killed by SIGSEGV in "
            "round 1: Fatal Python error: Segmentation fault."
        ),
    ]


def start(kind: str, reason: str = "", first_ms: int | None = None) -> dict[str, Any]:
    """Return the start of a node as in a status."""
    fields = {"kind": kind, "reason": reason, "firstOutputMilliseconds": first_ms}
    return {"start": {name: value for name, value in fields.items() if value not in {"", None}}}


def test_nodes_whose_workers_have_written_nothing_have_no_time() -> None:
    nodes = [a_node(0, **start("Warm", "", 26_500)), a_node(1, **start("Warm"))]
    assert described(a_job(nodes=nodes))[-1] == (
        "The workers of 2 nodes were started warm and those of 1 of them wrote their first output after 26 s."
    )


def test_the_starts_of_nodes_are_grouped_by_their_reason_the_warm_ones_first() -> None:
    nodes = [
        a_node(0, **start("Cold", "FOO differs", 5_100)),
        a_node(1, **start("Warm", "", 46)),
        a_node(2, **start("Warm", "", 190)),
    ]
    assert described(a_job(nodes=nodes))[-2:] == [
        "The workers of 2 nodes were started warm and wrote their first output after 0.19 s at most.",
        "The workers of digits-0-abcde were started cold and wrote their first output after 5.1 s: FOO differs.",
    ]


@pytest.mark.parametrize(("first_ms", "text"), [(0, "0 ms"), (46, "46 ms"), (190, "0.19 s"), (5_100, "5.1 s")])
def test_a_short_time_to_the_first_output_is_in_milliseconds(first_ms: int, text: str) -> None:
    assert described(a_job(nodes=[a_node(0, **start("Warm", "", first_ms))]))[-1].endswith(f"output after {text}.")


def test_a_start_without_output_so_far_has_no_time() -> None:
    nodes = [a_node(slot, **start("Warm")) for slot in range(2)]
    assert described(a_job(nodes=nodes))[-1] == "The workers of 2 nodes were started warm."


def test_of_many_reasons_for_cold_starts_the_most_frequent_are_named() -> None:
    rare = [a_node(slot, **start("Cold", f"reason {slot}")) for slot in range(5)]
    lines = described(a_job(nodes=[*rare, *(a_node(9 + i, **start("Cold", "frequent")) for i in range(2))]))
    assert lines[-4:] == [
        "The workers of 2 nodes were started cold: frequent.",
        "The workers of digits-0-abcde were started cold: reason 0.",
        "The workers of digits-1-abcde were started cold: reason 1.",
        "The workers of 3 more nodes were started cold for other reasons.",
    ]


def test_on_a_terminal_a_line_is_wrapped_below_its_message() -> None:
    (first, second), plain = wrap_hanging("  10:02:03  WorkerFailed: rank 3 failed", 30), wrap_hanging("It runs.", 30)
    assert (first, second) == ("  10:02:03  WorkerFailed: rank", "            3 failed")
    assert wrap_hanging("  kubectl get pods --all", 20) == ["  kubectl get pods", "  --all"]
    assert plain == ["It runs."]


def test_advice_for_a_run_on_this_machine_needs_no_cluster() -> None:
    for phase, words in [
        ("Suspended", "Run the manifest again"),
        ("Failed", "`elasticjob logs runs/d-1 --failed` shows"),
    ]:
        job = a_job(phase=phase, reason="Unschedulable")
        lines = describe(job, [], now_s=NOW_S, command="elasticjob", folder="runs/d-1")
        assert words in lines[-1]
        assert "kubectl" not in "".join(lines)


def test_a_failed_job_is_described_with_the_reason_and_the_command_for_more() -> None:
    message = "more than 3 failures"
    lines = described(a_job(phase="Failed", reason="MaxRestartsExceeded", message=message, completionTime=at(-10)))
    assert lines[0] == "team/digits has failed after 1 min 30 s, at 2025-12-31 23:59:50 UTC."
    assert lines[1] == "Why: MaxRestartsExceeded: more than 3 failures."
    assert "  `elasticjob logs digits -n team --failed` shows the output of the worker that failed first." in lines


def test_waiting_nodes_are_named_with_their_reason() -> None:
    waiting = a_node(1, "P", state="Pending", reason="ImagePullBackOff: no such image", nodeName="")
    lines = described(a_job(phase="Pending", readyReplicas=0, reason="ImagePullBackOff", message="m", nodes=[waiting]))
    assert "  digits-1-abcde, on no node yet is pending: ImagePullBackOff: no such image" in lines
    assert any("kubectl describe pod digits-1-abcde -n team" in line for line in lines)


@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        ({}, "team/digits was created, and no operator has written its status yet."),
        ({"phase": "Suspended"}, "team/digits is suspended: it has no pods; its counters and history are kept."),
        (
            {"phase": "Running", "reason": "Suspending", "message": "waiting for 2 pods to stop"},
            "team/digits is being suspended: waiting for 2 pods to stop.",
        ),
        ({"phase": "Starting", "desiredReplicas": 2}, "team/digits is starting, with no nodes of 2 in a round."),
    ],
)
def test_every_phase_has_its_sentence(status: dict[str, Any], sentence: str) -> None:
    job = {**a_job(), "status": status}
    assert described(job)[0] == sentence


@pytest.mark.parametrize(
    "reason",
    [
        "MaxRestartsExceeded",
        "FailJobRule",
        "BackoffLimitExceeded",
        "BelowMinReplicas",
        "DeadlineExceeded",
        "StartupDeadlineExceeded",
        "RendezvousUnavailable",
        "Unschedulable",
        "ImagePullBackOff",
        "InvalidSpec",
        "Stalled",
    ],
)
def test_every_reason_has_a_cure(reason: str) -> None:
    assert "What to do:" in described(a_job(reason=reason, message="m"))


@pytest.mark.parametrize("folder", ["", "runs/d-1"])
@pytest.mark.parametrize(
    ("code", "message"),
    [
        (127, "rank 0: command 'trian.sh' not found: no folder of its PATH has it"),
        (126, "rank 0: command './train.sh' cannot be executed: Permission denied"),
    ],
)
def test_a_command_that_cannot_be_started_has_its_field_and_cure_in_place_of_its_empty_log(
    code: int, message: str, folder: str
) -> None:
    failure = FAILURE | {"signal": "", "exitCode": code, "message": message}
    job = a_job(phase="Failed", reason="MaxRestartsExceeded", message="m", lastFailure=failure)
    job["spec"]["template"] = {"spec": {"containers": [{"name": "side"}, {"name": "main"}]}}
    job["spec"]["trainerContainer"] = "main"
    lines = describe(job, [], now_s=NOW_S, command="elasticjob", folder=folder)
    todo = lines[lines.index("What to do:") + 1 :]
    assert todo[0].strip().startswith("Correct spec.template.spec.containers[main].command, its PATH or the image")
    assert "failurePolicy" in todo[1]
    assert not any("logs" in line for line in todo)


@pytest.mark.parametrize(
    "message",
    [
        "rank 0: cannot enter its working directory '/data': No such file or directory",
        "rank 0: cannot be bound to processors [9]: Invalid argument",
        "rank 0: cannot be started (fork): Resource temporarily unavailable",
        "cannot open the log /logs/round_1/0/stderr.log: No space left on device",
    ],
)
def test_a_command_that_was_not_the_reason_has_no_cure(message: str) -> None:
    failure = FAILURE | {"signal": "", "exitCode": 126, "message": message}
    job = a_job(phase="Failed", reason="MaxRestartsExceeded", message="m", lastFailure=failure)
    lines = described(job)
    assert not any("Correct spec.template" in line for line in lines)
    assert any("logs digits -n team --failed" in line for line in lines)


def test_exit_code_127_of_a_shell_is_about_its_script() -> None:
    message = "sh: 1: trian.sh: not found"
    failure = FAILURE | {"signal": "", "exitCode": 127, "message": message, "stderrTail": f"{message}\n"}
    job = a_job(phase="Failed", reason="MaxRestartsExceeded", message="m", lastFailure=failure)
    assert any("logs digits -n team --failed" in line for line in described(job))


def test_a_job_without_a_problem_gets_no_advice() -> None:
    lines = described(a_job(restarts=0))
    assert lines[-1] == "Nothing has failed so far."


def test_foreign_text_cannot_move_the_terminals_cursor() -> None:
    lines = described(a_job(reason="Stalled", message="a\x1b[2Jb\nc"), HistoryEntry(NOW_S, "Stalled", "x\r\x1b[1Ay"))
    assert not any("\x1b" in line or "\r" in line for line in lines)

"""`status.lastFailure`: the root cause, with the message from the worker's own record."""

from typing import Any

import pytest

from elasticjob_api.records import WorkerFailure
from elasticjob_api.rendezvous_view import RendezvousView
from elasticjob_api.status import JobStatus, LastFailure
from elasticjob_operator.policy.status.last_failure import last_failure
from testing.builders import NOW, NOW_S, failures, job, pod, seen, state, view

KNOWN = LastFailure(
    time=NOW, round=1, pod_name="j-0-a", node_name="node-9", rank=0, local_rank=0, exit_code=1
)  # fmt: skip


def failure(**fields: Any) -> WorkerFailure:
    given = {"incarnation": "i", "rank": 5, "exit_code": 3, "pod": "j-2-a", "time_ns": int(NOW_S * 1e9), **fields}
    return WorkerFailure(**given)


def found(record: WorkerFailure | None = None, root: str = "4/0002.1", before: LastFailure | None = None) -> Any:
    at = view(2, state=state(round=5, root_cause=root), failures=failures(root, record or failure()))
    return last_failure(seen(job(status=JobStatus(last_failure=before)), at, pod(2)))


def test_the_root_cause_has_its_rank_pod_node_and_time() -> None:
    assert found(failure(message="boom")) == LastFailure(
        time=NOW, round=4, pod_name="j-2-a", node_name="node-2", rank=5, local_rank=1, exit_code=3,
        reason="Error", message="boom",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "code", "reason"),
    [
        ({"exit_code": 3}, 3, "Error"),
        ({"exit_code": -11, "signal": "SIGSEGV"}, 139, "Signaled"),
        ({"exit_code": -9, "signal": "SIGKILL", "oom": True}, 137, "OOMKilled"),
    ],
)
def test_the_exit_code_is_as_a_shell_shows_it(fields: dict[str, Any], code: int, reason: str) -> None:
    assert (found(failure(**fields)).exit_code, found(failure(**fields)).reason) == (code, reason)


def test_the_message_has_a_limit() -> None:
    assert len(found(failure(message="x" * 5000)).message) == 1024


def test_the_end_of_stderr_has_whole_lines() -> None:
    assert found(failure(stderr="a\nb\n")).stderr_tail == "a\nb\n"
    long = "".join(f"line {n}\n" for n in range(1000))
    tail = found(failure(stderr=long)).stderr_tail
    assert tail.startswith("line ")
    assert long.endswith(tail)
    assert 1000 < len(tail) <= 1024


def test_the_end_of_a_single_long_line_of_stderr_is_kept() -> None:
    assert found(failure(stderr="x" * 2000 + "end")).stderr_tail == "x" * 1021 + "end"


@pytest.mark.parametrize(
    "at",
    [
        RendezvousView(),
        view(state=state()),
        view(state=state(root_cause="4/0002.1")),
        view(state=state(root_cause="odd"), failures=failures("4/0002.1", failure())),
    ],
    ids=["no state", "no root cause", "its record was deleted", "an unreadable root cause"],
)
def test_the_last_failure_is_kept_without_a_new_record(at: RendezvousView) -> None:
    assert last_failure(seen(job(status=JobStatus(last_failure=KNOWN)), at)) == KNOWN


def test_a_root_cause_that_is_older_than_the_failure_in_the_status_does_not_replace_it() -> None:
    lost = LastFailure(
        time=NOW, round=4, pod_name="j-0-a", rank=0, local_rank=0, exit_code=137, reason="NodeLost", message="lost"
    )  # fmt: skip
    assert found(root="3/0002.1", before=lost) == lost


def test_a_root_cause_after_a_restart_of_the_round_numbers_replaces_the_failure_in_the_status() -> None:
    before_the_loss_of_etcd = LastFailure(time=NOW, round=9, pod_name="j-0-a", rank=0, local_rank=0, exit_code=1)
    assert found(root="4/0002.1", before=before_the_loss_of_etcd).round == 4


def test_the_node_of_a_pod_that_is_gone_is_kept() -> None:
    at = view(state=state(root_cause="1/0000.0"), failures=failures("1/0000.0", failure(pod="j-0-a")))
    after = last_failure(seen(job(status=JobStatus(last_failure=KNOWN)), at))
    assert after is not None
    assert after.node_name == "node-9"


def test_the_node_of_another_pod_is_not_used() -> None:
    at = view(state=state(root_cause="1/0000.0"), failures=failures("1/0000.0", failure(pod="j-0-b")))
    after = last_failure(seen(job(status=JobStatus(last_failure=KNOWN)), at))
    assert after is not None
    assert after.node_name == ""

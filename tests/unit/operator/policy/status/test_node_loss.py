"""A lost node as the last failure: its pod, and how the loss was detected."""

from dataclasses import replace
from typing import Any

import pytest

from elasticjob_api.records import Tombstone, TombstoneReason
from elasticjob_api.status import JobStatus, LastFailure, NodeStatus
from elasticjob_operator.model.job_state import JobState
from elasticjob_operator.policy.status.last_failure import last_failure
from elasticjob_operator.policy.status.last_seen import record_view
from elasticjob_operator.policy.status.node_loss import with_pod_exit
from testing.builders import (
    NOW,
    active,
    by_name,
    job,
    member,
    membership,
    nodes,
    pod,
    running,
    seen,
    state,
    view,
)

KNOWN = LastFailure(time=NOW, round=1, pod_name="j-0-a", rank=0, local_rank=0, exit_code=1)


def state_after_loss(*pods: Any, tombstone: Tombstone | None = None, members: tuple[int, ...] = (0, 1)) -> JobState:
    """Return the state of a process that observed the loss of slot 1 (and of every slot but 0) from round 1."""
    made = JobState()
    by_name = {each.name: each for each in pods}
    record_view(made.last_seen, running(*members), by_name)
    tombstones = {member(1): tombstone} if tombstone else {}
    record_view(
        made.last_seen, view(0, tombstones=tombstones, state=state(round=2), membership=membership(*members)), by_name
    )
    return made


def found(of: JobState, *, losses: int = 1, status: JobStatus | None = None) -> LastFailure | None:
    at = running(0, state=active(0, round=2, node_losses=losses))
    return last_failure(seen(job(status=status, nproc_per_node=2), at, job_state=of))


def test_a_lost_node_has_its_pod_its_node_and_its_first_rank() -> None:
    assert found(state_after_loss(pod(1))) == LastFailure(
        time=NOW, round=1, pod_name="j-1-a", node_name="node-1", rank=2, local_rank=0, exit_code=137,
        reason="NodeLost", message="pod j-1-a on node-1 was lost: its agent's lease in etcd expired",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("tombstone", "message"),
    [
        (Tombstone(TombstoneReason.POD_FAILED, "Evicted"), "the pod failed: Evicted"),
        (Tombstone(TombstoneReason.POD_DELETED, "pod j-1-a is gone"), "the pod was deleted"),
        (Tombstone(TombstoneReason.WEDGED), "its workers could not be stopped in time"),
        (Tombstone(TombstoneReason.REFUSED), "its agent's process is gone"),
    ],
)
def test_the_message_has_how_the_loss_was_detected(tombstone: Tombstone, message: str) -> None:
    failure = found(state_after_loss(tombstone=tombstone))
    assert failure is not None
    assert failure.message == f"pod j-1-a was lost: {message}"


def test_a_lost_node_whose_pod_failed_has_the_pods_exit_code() -> None:
    failure = found(state_after_loss(pod(1, phase="Failed", exit_code=42)))
    assert failure is not None
    assert failure.exit_code == 42


def test_the_message_has_the_number_of_other_lost_nodes() -> None:
    failure = found(state_after_loss(members=(0, 1, 2)))
    assert failure is not None
    assert failure.message.endswith("; 1 more node lost with it")


def test_a_loss_that_is_in_the_status_is_not_reported_again() -> None:
    assert found(state_after_loss(), losses=1, status=JobStatus(node_losses=1, last_failure=KNOWN)) == KNOWN


def test_a_process_that_started_after_the_loss_uses_the_pod_in_the_status() -> None:
    made = JobState()
    record_view(made.last_seen, view(0, nodes=nodes(0), state=state(round=2), membership=membership(0, 1)), {})
    status = JobStatus(nodes=(NodeStatus(name="j-1", pod_name="j-1-z", node_name="node-9"),))
    failure = found(made, status=status)
    assert failure is not None
    assert (failure.pod_name, failure.node_name) == ("j-1-z", "node-9")


def test_an_unobserved_loss_does_not_change_the_last_failure() -> None:
    assert found(JobState(), status=JobStatus(last_failure=KNOWN)) == KNOWN


LOST = LastFailure(
    time=NOW, round=1, pod_name="j-0-a", rank=0, local_rank=0, exit_code=137, reason="NodeLost", message="it was lost"
)  # fmt: skip


def test_the_reason_of_the_pod_is_added_once_after_the_loss() -> None:
    ended = by_name(pod(0, phase="Failed", reason="OOMKilled", exit_code=137))
    explained = with_pod_exit(LOST, ended)
    assert explained is not None
    assert explained.message == "it was lost; it ran out of memory (OOMKilled, exit code 137)"
    assert with_pod_exit(explained, ended) == explained
    assert explained.reason == "NodeLost"


@pytest.mark.parametrize("fields", [{}, {"phase": "Failed", "reason": "Error"}, {"name": "j-0-b", "phase": "Failed"}])
def test_a_pod_without_a_reason_changes_nothing(fields: dict[str, Any]) -> None:
    assert with_pod_exit(LOST, by_name(pod(0, **fields))) == LOST


def test_the_reason_of_the_pod_is_not_added_to_a_workers_own_failure() -> None:
    own = replace(LOST, reason="Error")
    assert with_pod_exit(own, by_name(pod(0, phase="Failed", reason="OOMKilled"))) == own

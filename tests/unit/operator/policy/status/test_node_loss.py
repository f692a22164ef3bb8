"""A lost node as the last failure: its pod, and how its loss became known."""

from dataclasses import replace
from typing import Any

import pytest

from elasticjob_api.records import Tombstone, TombstoneReason
from elasticjob_api.status import JobStatus, LastFailure, NodeStatus
from elasticjob_operator.model.job_state import JobState
from elasticjob_operator.policy.status.last_failure import last_failure
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
    view,
    world,
)

KNOWN = LastFailure(time=NOW, round=1, pod_name="j-0-a", rank=0, local_rank=0, exit_code=1)


def ledger(*pods: Any, gone: Tombstone | None = None, members: tuple[int, ...] = (0, 1)) -> JobState:
    """Of a process that saw slot 1 (and every other but 0) be lost from round 1."""
    made = JobState()
    by_name = {each.name: each for each in pods}
    made.last_seen.record(running(*members), by_name)
    proof = {member(1): gone} if gone else {}
    made.last_seen.record(view(0, tombstones=proof, world=world(round=2), membership=membership(*members)), by_name)
    return made


def found(of: JobState, *, losses: int = 1, status: JobStatus | None = None) -> LastFailure | None:
    at = running(0, world=active(0, round=2, node_losses=losses))
    return last_failure(seen(job(status=status, nproc_per_node=2), at, job_state=of))


def test_a_lost_node_is_named_with_its_pod_its_host_and_its_first_rank() -> None:
    assert found(ledger(pod(1))) == LastFailure(
        time=NOW, round=1, pod_name="j-1-a", node_name="node-1", rank=2, local_rank=0, exit_code=137,
        reason="NodeLost", message="pod j-1-a on node-1 was lost: its agent's lease in etcd expired",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("gone", "words"),
    [
        (Tombstone(TombstoneReason.POD_FAILED, "Evicted"), "the pod failed: Evicted"),
        (Tombstone(TombstoneReason.POD_DELETED, "pod j-1-a is gone"), "the pod was deleted"),
        (Tombstone(TombstoneReason.WEDGED), "its workers could not be stopped in time"),
        (Tombstone(TombstoneReason.REFUSED), "its agent's process is gone"),
    ],
)
def test_how_the_loss_became_known_is_said(gone: Tombstone, words: str) -> None:
    failure = found(ledger(gone=gone))
    assert failure is not None
    assert failure.message == f"pod j-1-a was lost: {words}"


def test_the_exit_code_of_a_pod_that_failed_is_the_pods_own() -> None:
    failure = found(ledger(pod(1, phase="Failed", exit_code=42)))
    assert failure is not None
    assert failure.exit_code == 42


def test_several_lost_at_once_are_counted() -> None:
    failure = found(ledger(members=(0, 1, 2)))
    assert failure is not None
    assert failure.message.endswith("; 1 more node lost with it")


def test_a_loss_that_was_told_is_not_told_again() -> None:
    assert found(ledger(), losses=1, status=JobStatus(node_losses=1, last_failure=KNOWN)) == KNOWN


def test_a_process_that_began_after_the_loss_has_the_name_from_the_status() -> None:
    made = JobState()
    made.last_seen.record(view(0, nodes=nodes(0), world=world(round=2), membership=membership(0, 1)), {})
    status = JobStatus(nodes=(NodeStatus(name="j-1", pod_name="j-1-z", node_name="node-9"),))
    failure = found(made, status=status)
    assert failure is not None
    assert (failure.pod_name, failure.node_name) == ("j-1-z", "node-9")


def test_a_loss_that_nobody_saw_leaves_what_was_said() -> None:
    assert found(JobState(), status=JobStatus(last_failure=KNOWN)) == KNOWN


LOST = LastFailure(
    time=NOW, round=1, pod_name="j-0-a", rank=0, local_rank=0, exit_code=137, reason="NodeLost", message="it was lost"
)  # fmt: skip


def test_a_pod_that_kubernetes_explains_after_the_loss_explains_it_once() -> None:
    ended = by_name(pod(0, phase="Failed", reason="OOMKilled", exit_code=137))
    told = with_pod_exit(LOST, ended)
    assert told is not None
    assert told.message == "it was lost; it ran out of memory (OOMKilled, exit code 137)"
    assert with_pod_exit(told, ended) == told
    assert told.reason == "NodeLost"


@pytest.mark.parametrize("fields", [{}, {"phase": "Failed", "reason": "Error"}, {"name": "j-0-b", "phase": "Failed"}])
def test_a_pod_that_says_no_more_changes_nothing(fields: dict[str, Any]) -> None:
    assert with_pod_exit(LOST, by_name(pod(0, **fields))) == LOST


def test_a_workers_own_failure_is_not_explained_by_its_pod() -> None:
    own = replace(LOST, reason="Error")
    assert with_pod_exit(own, by_name(pod(0, phase="Failed", reason="OOMKilled"))) == own

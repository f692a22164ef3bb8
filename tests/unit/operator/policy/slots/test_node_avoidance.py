"""The nodes that are avoided because they lost a pod, and for how long."""

from typing import Any

import pytest

from elasticjob_operator.model.job_state import JobState
from elasticjob_operator.model.slot_pod import PodState, SlotPod
from elasticjob_operator.policy.slots.node_avoidance import AVOID_S, MAX_AVOIDED, avoided_nodes, record_losses
from testing.builders import NOW_S, pod


def avoided_after(state: PodState, *, lost: bool = False, **fields: Any) -> tuple[str, ...]:
    job_state, each = JobState(), pod(0, **fields)
    record_losses(
        job_state, [SlotPod(each.name, state, each)], lost=frozenset({each.uid} if lost else ()), monotonic_s=NOW_S
    )
    return avoided_nodes(job_state, NOW_S)


def test_the_node_of_a_failed_or_lost_pod_is_avoided() -> None:
    assert avoided_after(PodState.FAILED) == ("node-0",)
    assert avoided_after(PodState.LIVE, lost=True) == ("node-0",)


@pytest.mark.parametrize("state", [PodState.LIVE, PodState.TERMINATING, PodState.COMPLETED])
def test_the_node_of_any_other_pod_is_not_avoided(state: PodState) -> None:
    assert avoided_after(state) == ()


def test_the_node_of_a_pod_that_the_cluster_ended_is_not_avoided() -> None:
    assert avoided_after(PodState.FAILED, is_disrupted=True) == ()


def test_a_failed_pod_without_a_node_is_ignored() -> None:
    assert avoided_after(PodState.FAILED, node_name="") == ()


def test_a_node_is_avoided_for_a_while() -> None:
    job_state = JobState(avoided_until_s={"a": NOW_S + AVOID_S})
    assert avoided_nodes(job_state, NOW_S) == ("a",)
    assert avoided_nodes(job_state, NOW_S + AVOID_S) == ()
    record_losses(job_state, [], lost=frozenset(), monotonic_s=NOW_S + AVOID_S)
    assert job_state.avoided_until_s == {}


def test_only_the_nodes_with_the_latest_losses_are_named() -> None:
    job_state = JobState(avoided_until_s={f"n{i:02}": NOW_S + i for i in range(1, 20)})
    assert avoided_nodes(job_state, NOW_S) == tuple(f"n{i:02}" for i in range(20 - MAX_AVOIDED, 20))

"""Pods that are stuck in their deletion: when their node is checked, and the state of a dead node."""

from typing import Any

import pytest

from elasticjob_operator.model.job_state import JobState
from elasticjob_operator.policy.slots.stuck_pods import CHECK_AGAIN_S, StuckPods, proof_of_death, stuck_pods
from testing.builders import NOW_S, pod


def stuck(*pods: Any, timeout_s: float = 300.0, checked_s: float | None = None) -> StuckPods:
    job_state = JobState(node_checked_s={} if checked_s is None else {"uid-j-0-a": checked_s})
    return stuck_pods(timeout_s, pods, job_state, now_s=NOW_S, monotonic_s=NOW_S)


def terminating(grace_ended_s: float) -> Any:
    """Return a pod whose grace period ended this long ago."""
    return pod(0, terminating=True, grace_ends_s=NOW_S - grace_ended_s)


def test_a_pod_is_stuck_after_its_grace_period_and_the_timeout() -> None:
    assert stuck(terminating(300.0)).pods == (terminating(300.0),)
    assert stuck(terminating(299.0)) == StuckPods((), 1.0)


def test_a_timeout_of_0_means_never() -> None:
    assert stuck(terminating(9999.0), timeout_s=0.0) == StuckPods((), None)


@pytest.mark.parametrize(
    "other", [pod(0), pod(0, terminating=True, grace_ends_s=1.0, node_name="")], ids=["not deleted", "on no node"]
)
def test_other_pods_are_not_stuck(other: Any) -> None:
    assert stuck(other) == StuckPods((), None)


def test_a_node_is_checked_again_only_after_a_while() -> None:
    assert stuck(terminating(400.0), checked_s=NOW_S) == StuckPods((), CHECK_AGAIN_S)
    assert stuck(terminating(400.0), checked_s=NOW_S - CHECK_AGAIN_S).pods


def node(ready: str | None, *taints: str) -> dict[str, Any]:
    conditions = [] if ready is None else [{"type": "Ready", "status": ready}]
    return {"spec": {"taints": [{"key": key} for key in taints]}, "status": {"conditions": conditions}}


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (None, "is gone"),
        (node("True"), ""),
        (node("True", "example.com/gpu"), ""),
        (node("False"), "is not ready"),
        (node("Unknown"), "is not ready"),
        (node(None), "is not ready"),
        (node("True", "node.kubernetes.io/out-of-service"), "is out of service"),
        ({}, "is not ready"),
    ],
)
def test_only_the_node_object_shows_whether_the_node_is_dead(found: dict[str, Any] | None, why: str) -> None:
    assert proof_of_death(found) == why

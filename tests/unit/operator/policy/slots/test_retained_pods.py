"""The failed pods that are retained for their logs."""

from typing import Any

from elasticjob_operator.policy.slots.retained_pods import MAX_RETAINED, retained_pods
from testing.builders import NOW_S, pod


def failed(slot: int, name: str, *, ago_s: float = 0.0, **fields: Any) -> Any:
    return pod(slot, name=name, **{"phase": "Failed", "exit_code": 1, "ended_s": NOW_S - ago_s, **fields})


def retained(*pods: Any, named: frozenset[str] = frozenset()) -> set[str]:
    return set(retained_pods(pods, named=named))


def test_the_last_failed_pod_of_each_slot_is_kept() -> None:
    pods = [failed(0, "a", ago_s=20), failed(0, "b", ago_s=10), failed(0, "c", ago_s=30), failed(1, "d")]
    assert retained(*pods) == {"b", "d"}


def test_only_a_failed_pod_without_resources_or_a_slot_is_kept() -> None:
    assert retained(pod(0)) == set()
    assert retained(pod(0, phase="Succeeded")) == set()
    assert retained(failed(0, "a", has_running_sidecar=True)) == set()  # its sidecar still runs
    assert retained(failed(0, "a", terminating=True)) == set()
    assert retained(failed(0, "a"), named=frozenset({"a"})) == set()  # it still owns its slot


def test_the_newest_pods_of_a_large_job_are_kept() -> None:
    pods = [failed(slot, f"p{slot}", ago_s=slot) for slot in range(50)]
    assert retained(*pods) == {f"p{slot}" for slot in range(MAX_RETAINED)}


def test_a_pod_that_failed_by_itself_is_kept_before_one_that_the_cluster_ended() -> None:
    assert retained(failed(0, "a", ago_s=60), failed(0, "b", is_disrupted=True)) == {"a"}
    assert retained(failed(0, "a", ago_s=60), failed(0, "b", is_rejected=True)) == {"a"}
    assert retained(failed(0, "b", is_rejected=True, ended_s=None)) == {"b"}

"""A pod of a job is lost, but not its node: the others continue in one more round, and another pod replaces it."""

from collections.abc import Callable
from typing import Any

import pytest

from e2e.manifests import ENDLESS, digits, guaranteed, hurried, injected, patient
from e2e.space import KINDS, Space, pod_of

pytestmark = pytest.mark.timeout(240)

# PID 1 of the pod is its init, whose one child is the agent.
_KILL_THE_AGENT = "date +%s.%N; kill -9 $(cut -d' ' -f1 /proc/1/task/1/children)"

# When the container is out of memory, the kernel kills the process with the highest oom_score_adj.
_OUT_OF_MEMORY = """
echo 1000 > /proc/$(cut -d' ' -f1 /proc/1/task/1/children)/oom_score_adj
date +%s.%N
exec python -c 'hoard = b"x" * (2 << 30)'
"""


def test_the_pod_of_rank_0_is_deleted(own_space: Space, measured: Callable[[str, float], None]) -> None:
    own_space.apply(patient(digits(epochs=ENDLESS)))
    first = own_space.wait(phase="Running", readyReplicas=3)
    own_space.reached(45)
    lost = pod_of(first, 0)
    deleted_at = own_space.delete_pod(lost)
    after = own_space.replaced(lost)
    measured("kubectl delete pod of rank 0 -> replaced, every worker started", own_space.running(2) - deleted_at)
    assert own_space.counts(after) == (2, 0, 0)
    assert pod_of(after, 0) == after["masterPod"] != lost
    survivors = {pod_of(first, rank) for rank in (1, 2)}
    assert survivors < {node["podName"] for node in after["nodes"]}
    own_space.delete_job()
    assert own_space.objects(KINDS) == []


def test_the_survivors_of_a_deleted_pod_do_not_wait_for_another_if_configured_so(
    own_space: Space, measured: Callable[[str, float], None]
) -> None:
    own_space.apply(hurried(digits(epochs=ENDLESS)))
    first = own_space.wait(phase="Running", readyReplicas=3)
    own_space.reached(45)
    lost, survivor, round_ = pod_of(first, 1), pod_of(first, 0), first["rendezvousRound"]
    deleted_at = own_space.delete_pod(lost)
    went_on_at = own_space.log(survivor, until=rf"elasticjob-agent: round {round_ + 1}: .* are running")[-1][0]
    measured("kubectl delete pod -> every worker of the survivors started", went_on_at - deleted_at)
    assert own_space.counts(own_space.replaced(lost)) == (round_ + 2, 0, 0)
    own_space.delete_job()
    assert own_space.objects(KINDS) == []


def test_an_agent_that_the_kernel_kills_for_want_of_memory_is_reported_as_out_of_memory(
    own_space: Space, measured: Callable[[str, float], None]
) -> None:
    own_space.apply(guaranteed(hurried(digits(epochs=ENDLESS)), "1Gi"))
    first = own_space.wait(phase="Running", readyReplicas=3)
    own_space.reached(45)
    lost, round_ = pod_of(first, 1), first["rendezvousRound"]
    killed_at = float(own_space.first_line_before_death(lost, "sh", "-c", _OUT_OF_MEMORY))
    after = _survived_and_replaced(own_space, lost, round_)
    measured("agent OOM-killed -> replaced, every worker started", own_space.running(round_ + 2) - killed_at)
    assert (after["lastFailure"]["podName"], after["lastFailure"]["exitCode"]) == (lost, 137)
    assert f"pod {lost} is replaced: it ran out of memory (OOMKilled" in own_space.kubectl("get", "events")
    own_space.delete_job()
    assert own_space.objects(KINDS) == []


def test_an_agent_that_is_killed_is_confirmed_dead_at_once_and_its_pod_replaced(
    own_space: Space, measured: Callable[[str, float], None]
) -> None:
    own_space.apply(hurried(injected(digits(epochs=ENDLESS))))
    first = own_space.wait(phase="Running", readyReplicas=3)
    own_space.reached(45)
    lost, survivor, round_ = pod_of(first, 1), pod_of(first, 0), first["rendezvousRound"]
    killed_at = float(own_space.kubectl("exec", lost, "--", "sh", "-c", _KILL_THE_AGENT).split()[0])
    went_on_at = own_space.log(survivor, until=rf"elasticjob-agent: round {round_ + 1}: .* are running")[-1][0]
    measured("agent SIGKILLed -> every worker of the survivors started", went_on_at - killed_at)
    after = _survived_and_replaced(own_space, lost, round_)
    measured("agent SIGKILLed -> replaced, every worker started", own_space.running(round_ + 2) - killed_at)
    assert after["lastFailure"]["podName"] == lost
    own_space.delete_job()
    assert own_space.objects(KINDS) == []


def _survived_and_replaced(space: Space, lost: str, round_: int) -> dict[str, Any]:
    """Check one round without it, one with another in its place, and no charge but the loss and its replacement."""
    after = space.replaced(lost)
    assert (*space.counts(after), after["podReplacements"]) == (round_ + 2, 0, 1, 1)
    return after

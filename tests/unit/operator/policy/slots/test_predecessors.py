"""podReplacementPolicy Failed: no slot gets a pod while another pod of it may run."""

from elasticjob_operator.model.job_state import JobState
from elasticjob_operator.model.pod import Pod
from elasticjob_operator.policy.slots.ownership import PodState, SlotPod
from elasticjob_operator.policy.slots.predecessors import slots_with_predecessor
from testing.builders import by_name, pod, spec

OWNERS = {0: SlotPod("j-0-new", PodState.PENDING_CREATE), 1: SlotPod("j-1-new", PodState.PENDING_CREATE)}


def waits(*pods: Pod, policy: str = "Failed", job_state: JobState | None = None) -> dict[int, str]:
    return slots_with_predecessor(spec(pod_replacement_policy=policy), OWNERS, by_name(*pods), job_state or JobState())


def test_a_slot_waits_for_each_pod_of_it_that_has_not_ended() -> None:
    assert waits(pod(0, name="j-0-old")) == {0: "j-0-old"}
    assert waits(pod(0, name="j-0-old", terminating=True)) == {0: "j-0-old"}
    assert waits(pod(0, name="j-0-old", phase="Pending")) == {0: "j-0-old"}
    assert waits(pod(0, name="j-0-old", phase="Succeeded", has_running_sidecar=True)) == {0: "j-0-old"}


def test_it_does_not_wait_for_one_that_has_ended_or_is_its_own_or_is_of_another_slot() -> None:
    assert waits(pod(0, name="j-0-old", phase="Failed")) == {}
    assert waits(pod(0, name="j-0-new")) == {}
    assert waits(pod(7, name="j-7-old")) == {}


def test_without_the_policy_nothing_waits() -> None:
    assert waits(pod(0, name="j-0-old"), policy="TerminatingOrFailed") == {}


def test_it_waits_for_one_that_was_created_and_is_not_shown_yet() -> None:
    job_state = JobState()
    job_state.creation_started("j-0-old", 0, 100.0)
    assert waits(job_state=job_state) == {0: "j-0-old"}
    job_state.record_shown([], 100.0 + 59.0)
    assert waits(job_state=job_state) == {0: "j-0-old"}
    job_state.record_shown(["j-0-old"], 101.0)
    assert waits(job_state=job_state) == {}


def test_a_refused_or_deleted_creation_is_not_waited_for() -> None:
    refused, deleted = JobState(), JobState()
    for job_state in (refused, deleted):
        job_state.creation_started("j-0-old", 0, 100.0)
    refused.creation_failed("j-0-old")
    deleted.observed_absent("j-0-old", "uid")
    assert waits(job_state=refused) == waits(job_state=deleted) == {}

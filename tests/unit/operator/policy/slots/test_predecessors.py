"""podReplacementPolicy Failed: no slot gets a new pod while another pod of it may run."""

from elasticjob_operator.model.job_state import JobState
from elasticjob_operator.model.pod import Pod
from elasticjob_operator.model.slot_pod import PodState, SlotPod
from elasticjob_operator.policy.slots.predecessors import slots_with_predecessor
from testing.builders import by_name, pod, spec

OWNERS = {0: SlotPod("j-0-new", PodState.PENDING_CREATE), 1: SlotPod("j-1-new", PodState.PENDING_CREATE)}


def waits(*pods: Pod, policy: str = "Failed", job_state: JobState | None = None) -> dict[int, str]:
    return slots_with_predecessor(spec(pod_replacement_policy=policy), OWNERS, by_name(*pods), job_state or JobState())


def test_a_slot_waits_for_each_of_its_pods_that_has_not_ended() -> None:
    assert waits(pod(0, name="j-0-old")) == {0: "j-0-old"}
    assert waits(pod(0, name="j-0-old", terminating=True)) == {0: "j-0-old"}
    assert waits(pod(0, name="j-0-old", phase="Pending")) == {0: "j-0-old"}
    assert waits(pod(0, name="j-0-old", phase="Succeeded", has_running_sidecar=True)) == {0: "j-0-old"}


def test_a_slot_does_not_wait_for_an_ended_pod_its_own_pod_or_that_of_another_slot() -> None:
    assert waits(pod(0, name="j-0-old", phase="Failed")) == {}
    assert waits(pod(0, name="j-0-new")) == {}
    assert waits(pod(7, name="j-7-old")) == {}


def test_without_the_policy_no_slot_waits() -> None:
    assert waits(pod(0, name="j-0-old"), policy="TerminatingOrFailed") == {}


def test_a_slot_waits_for_a_created_pod_that_the_watch_has_not_delivered_yet() -> None:
    job_state = JobState()
    job_state.creation_started("j-0-old", 0, 100.0)
    assert waits(job_state=job_state) == {0: "j-0-old"}
    job_state.record_cached([], 100.0 + 59.0)
    assert waits(job_state=job_state) == {0: "j-0-old"}
    job_state.record_cached(["j-0-old"], 101.0)
    assert waits(job_state=job_state) == {}


def test_a_slot_does_not_wait_for_a_pod_whose_creation_failed_or_that_was_deleted() -> None:
    refused, deleted = JobState(), JobState()
    for job_state in (refused, deleted):
        job_state.creation_started("j-0-old", 0, 100.0)
    refused.creation_failed("j-0-old")
    deleted.observed_absent("j-0-old", "uid")
    assert waits(job_state=refused) == waits(job_state=deleted) == {}

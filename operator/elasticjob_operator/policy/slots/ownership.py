"""The state of the pod that owns a slot, from the pod cache and from what this process knows beyond it.

Caches lag, so a pod that is missing from the cache may exist. Only a DELETED event or a 404 proves that it is gone.
"""

from collections.abc import Mapping

from elasticjob_operator.model.job_state import JobState, NameState
from elasticjob_operator.model.pod import Pod
from elasticjob_operator.model.slot_pod import PodState, SlotPod

_BY_NAME = {
    NameState.EXPECTED: PodState.PENDING_CREATE,
    NameState.CREATED: PodState.CREATED,
    NameState.UNKNOWN: PodState.UNKNOWN,
    NameState.ABSENT: PodState.ABSENT,
    NameState.NEVER_CREATED: PodState.NEVER_CREATED,
}


def owners(
    slots: Mapping[int, str], pods: Mapping[str, Pod], job_state: JobState, monotonic_s: float
) -> dict[int, SlotPod]:
    """Return the owner of every slot of the slot map; `pods` are by name."""
    return {slot: _slot_owner(name, pods.get(name), job_state, monotonic_s) for slot, name in slots.items()}


def _slot_owner(name: str, pod: Pod | None, job_state: JobState, monotonic_s: float) -> SlotPod:
    if pod is None or pod.uid in job_state.deleted_uids:
        return SlotPod(name, _BY_NAME[job_state.state_of(name, monotonic_s)])
    return SlotPod(name, _state_of(pod), pod)


def _state_of(pod: Pod) -> PodState:
    # Deletion first: containers of a deleted pod may end with any exit code, which is not a failure.
    if pod.terminating:
        return PodState.TERMINATING
    if pod.phase == "Failed":
        return PodState.FAILED
    return PodState.COMPLETED if pod.phase == "Succeeded" else PodState.LIVE

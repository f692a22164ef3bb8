"""Which slots wait for another pod of theirs to end before a new one is created: podReplacementPolicy Failed.

One rule for every way in which a slot gets a new pod: a replacement, a resume, scaling down and up again, a lost agent.
A pod counts until Kubernetes shows that it has ended. One that was created and is in no cache yet counts as well.
"""

from collections.abc import Mapping

from elasticjob_api.spec import JobSpec
from elasticjob_operator.model.job_state import JobState
from elasticjob_operator.model.pod import Pod
from elasticjob_operator.policy.slots.ownership import SlotPod


def slots_with_predecessor(
    spec: JobSpec, owners: Mapping[int, SlotPod], pods: Mapping[str, Pod], job_state: JobState
) -> dict[int, str]:
    """Slot → name of a pod of the slot that may still run and does not own it; empty unless the policy asks for it."""
    if spec.pod_replacement_policy != "Failed":
        return {}
    unended = [(pod.slot, name) for name, pod in pods.items() if not pod.ended or pod.has_running_sidecar]
    unseen = [(slot, name) for name, (slot, _) in job_state.sent_creations.items() if name not in pods]
    others = [(slot, name) for slot, name in (*unseen, *unended) if slot is not None and slot in owners]
    return {slot: name for slot, name in others if name != owners[slot].name}

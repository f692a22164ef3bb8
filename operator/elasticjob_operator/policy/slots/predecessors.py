"""Slots that get no new pod before another pod of theirs has ended: podReplacementPolicy Failed.

The rule covers every new pod of a slot: a replacement, a resume, scaling down and up again, a lost agent. A pod counts
until Kubernetes reports that it has ended. A pod that was created and is not in the cache yet also counts.
"""

from collections.abc import Mapping

from elasticjob_api.spec import JobSpec
from elasticjob_operator.model.job_state import JobState
from elasticjob_operator.model.pod import Pod
from elasticjob_operator.model.slot_pod import SlotPod


def slots_with_predecessor(
    spec: JobSpec, owners: Mapping[int, SlotPod], pods: Mapping[str, Pod], job_state: JobState
) -> dict[int, str]:
    """Return slot → name of a pod of the slot that may still run and does not own it; empty with any other policy."""
    if spec.pod_replacement_policy != "Failed":
        return {}
    not_ended = [(pod.slot, name) for name, pod in pods.items() if not pod.ended or pod.has_running_sidecar]
    not_cached = [(slot, name) for name, (slot, _) in job_state.sent_creations.items() if name not in pods]
    others = [(slot, name) for slot, name in (*not_cached, *not_ended) if slot is not None and slot in owners]
    return {slot: name for slot, name in others if name != owners[slot].name}

"""Pods that are newer than the slot map: etcd was restored from a backup that is older than they are.

A pod is created from a slot map that names it, and has the revision of that map. So a map of a lower revision has not
dropped the pod. That holds for any new operator process, and whichever agent first writes into the restored etcd.

In an etcd that was emptied, revisions begin again, and all earlier pods seem newer. So a slot keeps a pod that lives,
and a name that this process wrote.
"""

from collections.abc import Container, Iterable, Mapping

from elasticjob_operator.model.pod import Pod
from elasticjob_operator.model.slot_pod import PodState, SlotPod

_KEPT = frozenset({PodState.LIVE, PodState.PENDING_CREATE, PodState.CREATED})


def pods_after_map(
    pods: Iterable[Pod], owners: Mapping[int, SlotPod], *, map_revision: int, lost: Container[str]
) -> dict[int, Pod]:
    """Return slot → its youngest live pod that is newer than the slot map; lost pods (uids) are left out."""
    newer = [pod for pod in pods if pod.spec_revision > map_revision and pod.is_live and pod.uid not in lost]
    return {
        pod.slot: pod
        for pod in sorted(newer, key=lambda pod: (pod.created_s, pod.name))
        if pod.slot is not None and (pod.slot not in owners or owners[pod.slot].state not in _KEPT)
    }

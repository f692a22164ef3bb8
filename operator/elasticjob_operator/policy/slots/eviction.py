"""Evictions of agents whose pod is gone or has failed; the operator's tombstone is faster than the lease.

A node key is matched by the pod's uid, because a name does not show which process wrote the key. A deletion in progress
is not enough: the agent may be writing a checkpoint. A pod missing from the cache proves nothing: the API server is
asked for it first.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from elasticjob_api.records import Tombstone, TombstoneReason
from elasticjob_api.rendezvous_state import Member
from elasticjob_api.rendezvous_view import NodeEntry, RendezvousView
from elasticjob_operator.model.actions import Evict
from elasticjob_operator.model.job_state import JobState
from elasticjob_operator.model.pod import Pod
from elasticjob_operator.policy.status.pod_messages import describe_exit


@dataclass(frozen=True, slots=True)
class Evictions:
    """The agents to evict, and the names of pods to read from the API server."""

    evict: tuple[Evict, ...]
    get_pods: Mapping[str, frozenset[str]]
    """Pod name → the uids that node keys report for it."""


def evictions(view: RendezvousView, pods: Mapping[str, Pod], job_state: JobState) -> Evictions:
    """Return the evictions that all node keys of the job need; `pods` are by name."""
    by_uid = {pod.uid: pod for pod in pods.values()}
    found: list[Evict] = []
    get_pods: dict[str, frozenset[str]] = {}
    for member, node in sorted(view.nodes.items()):
        pod = by_uid.get(node.record.pod_uid)
        if tombstone := _tombstone(node, pod, job_state):
            found.append(_eviction(view, member, node, tombstone))
        elif pod is None:
            name = node.record.pod
            get_pods[name] = get_pods.get(name, frozenset()) | {node.record.pod_uid}
    return Evictions(tuple(found), get_pods)


def _tombstone(node: NodeEntry, pod: Pod | None, job_state: JobState) -> Tombstone | None:
    uid, name = node.record.pod_uid, node.record.pod
    if uid in job_state.deleted_uids or (pod is None and name in job_state.absent_pods):
        return Tombstone(TombstoneReason.POD_DELETED, f"pod {name} is gone")
    if pod is not None and pod.phase == "Failed":
        return Tombstone(TombstoneReason.POD_FAILED, describe_exit(pod))
    return None


def _eviction(view: RendezvousView, member: Member, node: NodeEntry, tombstone: Tombstone) -> Evict:
    before = view.tombstones.get(member)
    overwrite = before is not None and (before.reason, tombstone.reason) == (
        TombstoneReason.REFUSED,
        TombstoneReason.POD_FAILED,
    )
    return Evict(member, node.lease, tombstone, overwrite)

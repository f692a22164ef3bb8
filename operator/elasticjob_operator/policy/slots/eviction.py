"""PURE: node keys whose pod is gone or has failed: the operator's proof, faster than the lease.

Matched by the pod's uid, because a name does not show which process wrote the key. Never on a deletion that is only
under way: that agent may be saving a checkpoint. A pod missing from the cache proves nothing; it is looked for.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from elasticjob_api.records import Tombstone, TombstoneReason
from elasticjob_api.rendezvous_state import Member
from elasticjob_operator.model.job_state import JobState
from elasticjob_operator.model.pod import Pod
from elasticjob_operator.model.rendezvous_view import NodeEntry, RendezvousView
from elasticjob_operator.policy.status.pod_messages import describe_exit


@dataclass(frozen=True, slots=True)
class Eviction:
    """One stay that has ended: its proof, and the lease that all its keys hang on."""

    member: Member
    lease: int
    tombstone: Tombstone
    overwrite: bool = False
    """The stored record has less than ours."""


@dataclass(frozen=True, slots=True)
class Evictions:
    """The agents to evict, and names of pods to ask the API server for."""

    evict: tuple[Eviction, ...]
    get_pods: Mapping[str, frozenset[str]]
    """Pod name → the uids that node keys claim for it."""


def evictions(view: RendezvousView, pods: Mapping[str, Pod], job_state: JobState) -> Evictions:
    """Judge every node key; `pods` are by name."""
    by_uid = {pod.uid: pod for pod in pods.values()}
    found: list[Eviction] = []
    look: dict[str, frozenset[str]] = {}
    for member, node in sorted(view.nodes.items()):
        pod = by_uid.get(node.record.pod_uid)
        if proof := _proof_of_death(node, pod, job_state):
            found.append(_eviction(view, member, node, proof))
        elif pod is None:
            name = node.record.pod
            look[name] = look.get(name, frozenset()) | {node.record.pod_uid}
    return Evictions(tuple(found), look)


def _proof_of_death(node: NodeEntry, pod: Pod | None, job_state: JobState) -> Tombstone | None:
    uid, name = node.record.pod_uid, node.record.pod
    if uid in job_state.deleted_uids or (pod is None and name in job_state.absent_pods):
        return Tombstone(TombstoneReason.POD_DELETED, f"pod {name} is gone")
    if pod is not None and pod.phase == "Failed":
        return Tombstone(TombstoneReason.POD_FAILED, describe_exit(pod))
    return None


def _eviction(view: RendezvousView, member: Member, node: NodeEntry, proof: Tombstone) -> Eviction:
    before = view.tombstones.get(member)
    overwrite = before is not None and (before.reason, proof.reason) == (
        TombstoneReason.REFUSED,
        TombstoneReason.POD_FAILED,
    )
    return Eviction(member, node.lease, proof, overwrite)

"""A lost node as a `lastFailure`: its pod, and a message about how the loss was detected."""

from collections.abc import Mapping
from dataclasses import replace

from elasticjob_api.failure_text import NODE_LOST
from elasticjob_api.job import nproc_per_node
from elasticjob_api.records import Tombstone, TombstoneReason
from elasticjob_api.status import LastFailure
from elasticjob_operator.model.last_seen import LostNode, PodLocation
from elasticjob_operator.model.pod import Pod
from elasticjob_operator.model.snapshot import JobSnapshot
from elasticjob_operator.model.text import pluralize
from elasticjob_operator.model.timestamps import to_rfc3339
from elasticjob_operator.policy.status.pod_messages import GENERIC_REASONS, describe_exit

_KILLED = 137
"""Exit code of a killed process; used for a lost node, whose exit code is unknown."""
_LEASE_EXPIRED = "its agent's lease in etcd expired"
_DETECTION_TEXTS = {
    TombstoneReason.POD_DELETED: "the pod was deleted",
    TombstoneReason.REFUSED: "its agent's process is gone",
    TombstoneReason.WEDGED: "its workers could not be stopped in time",
    TombstoneReason.SUPERSEDED: "another agent process replaced it",
}


def from_node_loss(snapshot: JobSnapshot) -> LastFailure | None:
    """Return the node that was lost from the last round, the first of several; None if it is not known."""
    lost = snapshot.job_state.last_seen.lost_nodes
    if not lost:
        return None
    first, location = lost[0], _location(snapshot, lost[0])
    code = _KILLED if location.exit_code is None else location.exit_code
    return LastFailure(
        time=to_rfc3339(snapshot.now_s),
        round=first.round,
        pod_name=location.pod,
        node_name=location.node_name,
        rank=first.rank * nproc_per_node(snapshot.job.spec),
        local_rank=0,
        exit_code=code,
        reason=NODE_LOST,
        message=_message(location, first, others=len(lost) - 1),
    )


def with_pod_exit(known: LastFailure | None, pods: Mapping[str, Pod]) -> LastFailure | None:
    """Return the failure; for a lost node with the cause of the pod's end, which Kubernetes reports after the loss."""
    if known is None or known.reason != NODE_LOST or (pod := pods.get(known.pod_name)) is None:
        return known
    if not pod.ended or pod.reason in GENERIC_REASONS or pod.reason in known.message:
        return known
    return replace(known, message=f"{known.message}; {describe_exit(pod)}")


def _location(snapshot: JobSnapshot, lost: LostNode) -> PodLocation:
    """Return the remembered location; after a restart of the operator that in the status."""
    if (location := snapshot.job_state.last_seen.locations.get(lost.member)) is not None:
        return location
    name = f"{snapshot.job.metadata.name}-{lost.member.slot}"
    known = next((node for node in snapshot.status.nodes if node.name == name), None)
    return PodLocation(known.pod_name, known.node_name) if known else PodLocation(name)


def _message(location: PodLocation, lost: LostNode, *, others: int) -> str:
    where = f"pod {location.pod}" + (f" on {location.node_name}" if location.node_name else "")
    more = f"; {pluralize(others, 'more node')} lost with it" if others else ""
    return f"{where} was lost: {_describe_detection(lost.tombstone)}{more}"


def _describe_detection(tombstone: Tombstone | None) -> str:
    if tombstone is None:
        return _LEASE_EXPIRED
    if tombstone.reason is TombstoneReason.POD_FAILED:
        return "the pod failed" + (f": {tombstone.detail}" if tombstone.detail else "")
    return _DETECTION_TEXTS.get(tombstone.reason, tombstone.detail or _LEASE_EXPIRED)

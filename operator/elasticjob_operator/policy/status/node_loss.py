"""PURE: a lost node as a `lastFailure`: which pod it was, and how its loss became known, in words."""

from collections.abc import Mapping
from dataclasses import replace

from elasticjob_api.job import nproc_per_node
from elasticjob_api.records import Tombstone, TombstoneReason
from elasticjob_api.status import LastFailure
from elasticjob_operator.model.last_seen import PodLocation
from elasticjob_operator.model.pod import Pod
from elasticjob_operator.model.snapshot import JobSnapshot
from elasticjob_operator.model.text import node_count_text
from elasticjob_operator.model.timestamps import to_rfc3339
from elasticjob_operator.policy.status.lost_nodes import LostNode
from elasticjob_operator.policy.status.pod_messages import GENERIC_REASONS, describe_exit

REASON = "NodeLost"
_KILLED = 137
"""The exit of a process that was killed from outside; the exit of a lost one was not seen."""
_SILENT = "its agent fell silent"
_DETECTION_TEXTS = {
    TombstoneReason.POD_DELETED: "the pod was deleted",
    TombstoneReason.REFUSED: "its agent's process is gone",
    TombstoneReason.WEDGED: "its workers could not be stopped in time",
    TombstoneReason.SUPERSEDED: "another process took its place",
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
        reason=REASON,
        message=_message(location, first, others=len(lost) - 1),
    )


def with_pod_exit(known: LastFailure | None, pods: Mapping[str, Pod]) -> LastFailure | None:
    """The same failure; that of a lost node also with why its pod ended, which Kubernetes reports after the loss."""
    if known is None or known.reason != REASON or (pod := pods.get(known.pod_name)) is None:
        return known
    if not pod.ended or pod.reason in GENERIC_REASONS or pod.reason in known.message:
        return known
    return replace(known, message=f"{known.message}; {describe_exit(pod)}")


def _location(snapshot: JobSnapshot, lost: LostNode) -> PodLocation:
    """As remembered; a process that began after the loss has only the status."""
    if (location := snapshot.job_state.last_seen.locations.get(lost.member)) is not None:
        return location
    name = f"{snapshot.job.metadata.name}-{lost.member.slot}"
    known = next((node for node in snapshot.status.nodes if node.name == name), None)
    return PodLocation(known.pod_name, known.node_name) if known else PodLocation(name)


def _message(location: PodLocation, lost: LostNode, *, others: int) -> str:
    where = f"pod {location.pod}" + (f" on {location.node_name}" if location.node_name else "")
    more = f"; {node_count_text(others)} more went with it" if others else ""
    return f"{where} was lost: {_describe_detection(lost.gone)}{more}"


def _describe_detection(gone: Tombstone | None) -> str:
    if gone is None:
        return _SILENT
    if gone.reason is TombstoneReason.POD_FAILED:
        return "the pod failed" + (f": {gone.detail}" if gone.detail else "")
    return _DETECTION_TEXTS.get(gone.reason, gone.detail or _SILENT)

"""PURE: a lost node as a `lastFailure`: which pod it was, and how its loss became known, in words."""

from collections.abc import Mapping
from dataclasses import replace

from elasticjob_api.job import nproc_per_node
from elasticjob_api.records import Gone, GoneReason
from elasticjob_api.status import LastFailure
from elasticjob_operator.model.last_seen import Place
from elasticjob_operator.model.pod import Pod
from elasticjob_operator.model.snapshot import Observed
from elasticjob_operator.model.text import nodes
from elasticjob_operator.model.timestamps import to_rfc3339
from elasticjob_operator.policy.status.lost_nodes import LostNode
from elasticjob_operator.policy.status.pod_messages import PLAIN, how_it_ended

REASON = "NodeLost"
_KILLED = 137
"""The exit of a process that was killed from outside; the exit of a lost one was not seen."""
_SILENT = "its agent fell silent"
_HOW = {
    GoneReason.POD_DELETED: "the pod was deleted",
    GoneReason.REFUSED: "its agent's process is gone",
    GoneReason.WEDGED: "its workers could not be stopped in time",
    GoneReason.SUPERSEDED: "another process took its place",
}


def of_loss(seen: Observed) -> LastFailure | None:
    """Return the node that was lost from the last round, the first of several; None if it is not known."""
    lost = seen.ledger.memory.lost
    if not lost:
        return None
    first, place = lost[0], _place(seen, lost[0])
    code = _KILLED if place.exit_code is None else place.exit_code
    return LastFailure(
        time=to_rfc3339(seen.now_s),
        round=first.round,
        pod_name=place.pod,
        node_name=place.node_name,
        rank=first.rank * nproc_per_node(seen.job.spec),
        local_rank=0,
        exit_code=code,
        reason=REASON,
        message=_message(place, first, others=len(lost) - 1),
    )


def explained(known: LastFailure | None, pods: Mapping[str, Pod]) -> LastFailure | None:
    """The same failure; that of a lost node also with why its pod ended, which Kubernetes reports after the loss."""
    if known is None or known.reason != REASON or (pod := pods.get(known.pod_name)) is None:
        return known
    if not pod.ended or pod.reason in PLAIN or pod.reason in known.message:
        return known
    return replace(known, message=f"{known.message}; {how_it_ended(pod)}")


def _place(seen: Observed, lost: LostNode) -> Place:
    """As remembered; a process that began after the loss has only the status."""
    if (place := seen.ledger.memory.places.get(lost.member)) is not None:
        return place
    name = f"{seen.job.metadata.name}-{lost.member.slot}"
    known = next((node for node in seen.status.nodes if node.name == name), None)
    return Place(known.pod_name, known.node_name) if known else Place(name)


def _message(place: Place, lost: LostNode, *, others: int) -> str:
    where = f"pod {place.pod}" + (f" on {place.node_name}" if place.node_name else "")
    more = f"; {nodes(others)} more went with it" if others else ""
    return f"{where} was lost: {_how(lost.gone)}{more}"


def _how(gone: Gone | None) -> str:
    if gone is None:
        return _SILENT
    if gone.reason is GoneReason.POD_FAILED:
        return "the pod failed" + (f": {gone.detail}" if gone.detail else "")
    return _HOW.get(gone.reason, gone.detail or _SILENT)

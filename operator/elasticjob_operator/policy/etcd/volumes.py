"""Evidence that the volume of an etcd member is lost, from its pod, claim, volume and node.

Only a pod that is on no node counts: no process of it can run, and a member that merely restarts stays on its node. A
local volume is lost with its node. A network volume can be attached elsewhere, so it is never considered lost. The
evidence must hold unchanged for a while. At most one member is ever replaced: all others must be healthy.
"""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from elasticjob_etcd.members import EtcdMember
from elasticjob_operator.model import objects
from elasticjob_operator.model.cluster_interface import Object
from elasticjob_operator.policy.slots.stuck_pods import proof_of_death

MIN_MEMBERS = 3
"""Fewest members: with two, etcd cannot lose one."""
PROOF_DURATION_S = 60.0
"""Seconds for which a missing object must stay missing: a node that registers again is gone for a moment."""
_SELECTED_NODE = "volume.kubernetes.io/selected-node"
_HOSTNAME = "kubernetes.io/hostname"


@dataclass(frozen=True, slots=True)
class VolumeLoss:
    """The evidence that a volume is lost; its time starts again whenever it changes."""

    pod_uid: str
    claim_uid: str
    reason: str
    since: str
    """The API server's time of the last change of the node's Ready condition."""
    confirm_after_s: float


def only_silent(members: Sequence[EtcdMember], pods: Mapping[str, str], answering: AbstractSet[str]) -> str | None:
    """Return the one pod whose etcd does not answer, if all others are members with a vote.

    `pods` are peer URLs by name, `answering` are names.
    """
    silent = sorted(pods.keys() - answering)
    if len(pods) < MIN_MEMBERS or len(silent) != 1:
        return None
    voters = {url for member in members if member.name and not member.is_learner for url in member.peer_urls}
    foreign = [member for member in members if not set(member.peer_urls) & set(pods.values())]
    learners = [member for member in members if member.is_learner]
    others = {url for name, url in pods.items() if name != silent[0]}
    return silent[0] if others <= voters and not foreign and not learners else None


def is_unscheduled(pod: Object | None) -> bool:
    """Return whether the pod exists and is on no node."""
    return pod is not None and not (pod.get("spec") or {}).get("nodeName") and not objects.is_terminating(pod)


def node_of(claim: Object | None, volume: Object | None) -> str:
    """Return the only node on which this volume can be used; empty if there are others, or if it is unknown."""
    annotations = objects.metadata(claim or {}).get("annotations") or {}
    node = str(annotations.get(_SELECTED_NODE) or "")
    affinity = ((volume or {}).get("spec") or {}).get("nodeAffinity") or {}
    terms = (affinity.get("required") or {}).get("nodeSelectorTerms") or []
    return node if node and terms and all(_is_of_one_node(term, node) for term in terms) else ""


def _is_of_one_node(term: Mapping[str, Any], node: str) -> bool:
    """Return whether a node selector term names this node only; the label's name depends on the driver."""
    found: Iterator[Mapping[str, Any]] = (
        one
        for one in [*(term.get("matchExpressions") or []), *(term.get("matchFields") or [])]
        if one.get("operator") == "In" and len(one.get("values") or []) == 1
    )
    return any(one.get("key") == _HOSTNAME or one["values"] == [node] for one in found)


def loss_of(
    pod: Object | None, claim: Object | None, volume: Object | None, node: Object | None, *, replace_after_s: float
) -> VolumeLoss | None:
    """Return the evidence that the pod's volume is lost; `node` is the object named by `node_of`, or None."""
    if pod is None or not is_unscheduled(pod):
        return None
    of = objects.uid_of(pod), objects.uid_of(claim or {})
    if claim is None:
        return VolumeLoss(*of, "its claim is gone", "", PROOF_DURATION_S)
    if (claim.get("spec") or {}).get("volumeName") and volume is None:
        return VolumeLoss(*of, "its volume is gone", "", PROOF_DURATION_S)
    if not (name := node_of(claim, volume)):
        return None
    if why := proof_of_death(node, only_proof=True):
        return VolumeLoss(*of, f"node {name} {why}", "", PROOF_DURATION_S)
    why = proof_of_death(node)
    return VolumeLoss(*of, f"node {name} {why}", _ready_since(node or {}), replace_after_s) if why else None


def _ready_since(node: Object) -> str:
    conditions = (node.get("status") or {}).get("conditions") or []
    return next((str(one.get("lastTransitionTime") or "") for one in conditions if one.get("type") == "Ready"), "")


@dataclass(frozen=True, slots=True)
class PendingLoss:
    """Evidence, and the time since when it has held unchanged (monotonic clock)."""

    loss: VolumeLoss
    since_s: float

    def is_due(self, now_s: float) -> bool:
        """Return whether it has held for long enough."""
        return now_s - self.since_s >= self.loss.confirm_after_s


def confirm_loss(before: PendingLoss | None, loss: VolumeLoss | None, now_s: float) -> PendingLoss | None:
    """Return the evidence of this check; it keeps its time if it is the same as before."""
    if loss is None:
        return None
    return before if before is not None and before.loss == loss else PendingLoss(loss, now_s)

"""PURE: whether the volume of an etcd member is lost: (its pod, claim, volume and node) → the evidence for it.

Only a pod that is on no node counts: no process of it can run, and a member that merely restarts is on its node. A
volume of one node is lost with that node. A network volume can be attached elsewhere, so it is never taken for lost.
Evidence must hold without a change for a while, and at most one member is ever replaced: all others must be whole.
"""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from elasticjob_etcd.members import Member
from elasticjob_operator.model import objects
from elasticjob_operator.model.cluster_interface import Object
from elasticjob_operator.policy.slots.stuck_pods import proof_of_death

MIN_MEMBERS = 3
"""Of two members none can be spared."""
PROOF_DURATION_S = 60.0
"""A node that registers anew is gone for a moment."""
_SELECTED_NODE = "volume.kubernetes.io/selected-node"
_HOSTNAME = "kubernetes.io/hostname"


@dataclass(frozen=True, slots=True)
class VolumeLoss:
    """The evidence that a volume is lost; any change of it makes another one, whose time begins anew."""

    pod_uid: str
    claim_uid: str
    reason: str
    since: str
    """When the node was last marked as ready or not, as the API server has it."""
    confirm_after_s: float


def only_silent(members: Sequence[Member], pods: Mapping[str, str], answering: AbstractSet[str]) -> str | None:
    """The one pod in which no etcd answers, if all others are members with a vote; `answering` are names of pods."""
    silent = sorted(pods.keys() - answering)
    if len(pods) < MIN_MEMBERS or len(silent) != 1:
        return None
    voters = {url for member in members if member.name and not member.is_learner for url in member.peer_urls}
    strangers = [member for member in members if not set(member.peer_urls) & set(pods.values())]
    learners = [member for member in members if member.is_learner]
    others = {url for name, url in pods.items() if name != silent[0]}
    return silent[0] if others <= voters and not strangers and not learners else None


def is_unscheduled(pod: Object | None) -> bool:
    """Whether the pod is there and on no node."""
    return pod is not None and not (pod.get("spec") or {}).get("nodeName") and not objects.is_terminating(pod)


def node_of(claim: Object | None, volume: Object | None) -> str:
    """The only node at which this volume can be used; empty if it can be used at others, or if that is unknown."""
    annotations = objects.metadata(claim or {}).get("annotations") or {}
    node = str(annotations.get(_SELECTED_NODE) or "")
    affinity = ((volume or {}).get("spec") or {}).get("nodeAffinity") or {}
    terms = (affinity.get("required") or {}).get("nodeSelectorTerms") or []
    return node if node and terms and all(_is_of_one_node(term, node) for term in terms) else ""


def _is_of_one_node(term: Mapping[str, Any], node: str) -> bool:
    """A zone has the names of zones; a node has its own name, whatever the driver calls the label."""
    found: Iterator[Mapping[str, Any]] = (
        one
        for one in [*(term.get("matchExpressions") or []), *(term.get("matchFields") or [])]
        if one.get("operator") == "In" and len(one.get("values") or []) == 1
    )
    return any(one.get("key") == _HOSTNAME or one["values"] == [node] for one in found)


def loss_of(
    pod: Object | None, claim: Object | None, volume: Object | None, node: Object | None, *, replace_after_s: float
) -> VolumeLoss | None:
    """The evidence that the pod's volume is lost; `node` is that of `node_of`, None when it is not there."""
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
    """Evidence, and since when it has held without a change; monotonic."""

    loss: VolumeLoss
    since_s: float

    def is_due(self, now_s: float) -> bool:
        """It has held for long enough."""
        return now_s - self.since_s >= self.loss.confirm_after_s


def confirm_loss(before: PendingLoss | None, loss: VolumeLoss | None, now_s: float) -> PendingLoss | None:
    """The evidence of this look, with the time of the looks before if it is the same."""
    if loss is None:
        return None
    return before if before is not None and before.loss == loss else PendingLoss(loss, now_s)

"""Nodes that lost a pod recently: for a while, replacements prefer other nodes.

This is a preference, not a requirement. With a single node, or when all others are full, the same node is better than
none. Disruptions by the cluster itself (drain, preemption) are left out: the scheduler already knows about them.
"""

from collections.abc import Iterable

from elasticjob_operator.model.job_state import JobState
from elasticjob_operator.model.slot_pod import PodState, SlotPod

AVOID_S = 600.0
MAX_AVOIDED = 8
"""Most nodes that one pod avoids: those with the latest losses."""


def record_losses(job_state: JobState, owners: Iterable[SlotPod], *, lost: frozenset[str], monotonic_s: float) -> None:
    """Record the nodes of pods that have failed or are lost (uids) now."""
    known = {node: until_s for node, until_s in job_state.avoided_until_s.items() if until_s > monotonic_s}
    for owner in owners:
        if owner.pod is not None and owner.pod.node_name and _is_loss(owner, lost):
            known[owner.pod.node_name] = monotonic_s + AVOID_S
    job_state.avoided_until_s = known


def _is_loss(owner: SlotPod, lost: frozenset[str]) -> bool:
    assert owner.pod is not None
    return owner.pod.uid in lost or (owner.state is PodState.FAILED and not owner.pod.is_disrupted)


def avoided_nodes(job_state: JobState, monotonic_s: float) -> tuple[str, ...]:
    """Return the names of the nodes to avoid."""
    newest = sorted(job_state.avoided_until_s.items(), key=lambda item: (-item[1], item[0]))
    return tuple(sorted(node for node, until_s in newest[:MAX_AVOIDED] if until_s > monotonic_s))

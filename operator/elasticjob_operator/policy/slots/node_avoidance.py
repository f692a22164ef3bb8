"""PURE: nodes that lost a pod lately: a replacement goes elsewhere if it can, for a while.

A wish to the scheduler and no order: on a cluster of one node, or when all others are full, the same node is better
than none. What the cluster itself did (drain, preemption) needs no such wish: there the scheduler knows.
"""

from collections.abc import Iterable

from elasticjob_operator.model.job_state import JobState
from elasticjob_operator.policy.slots.ownership import PodState, SlotPod

AVOID_S = 600.0
MAX_AVOIDED = 8
"""Nodes named in one pod: the last ones."""


def record_losses(job_state: JobState, owners: Iterable[SlotPod], *, lost: frozenset[str], monotonic_s: float) -> None:
    """Take in whose pods have failed or are lost (uids) now."""
    known = {node: until_s for node, until_s in job_state.avoided_until_s.items() if until_s > monotonic_s}
    for owner in owners:
        if owner.pod is not None and owner.pod.node_name and _is_loss(owner, lost):
            known[owner.pod.node_name] = monotonic_s + AVOID_S
    job_state.avoided_until_s = known


def _is_loss(owner: SlotPod, lost: frozenset[str]) -> bool:
    assert owner.pod is not None
    return owner.pod.uid in lost or (owner.state is PodState.FAILED and not owner.pod.is_disrupted)


def avoided_nodes(job_state: JobState, monotonic_s: float) -> tuple[str, ...]:
    """The nodes to avoid, by name."""
    newest = sorted(job_state.avoided_until_s.items(), key=lambda item: (-item[1], item[0]))
    return tuple(sorted(node for node, until_s in newest[:MAX_AVOIDED] if until_s > monotonic_s))

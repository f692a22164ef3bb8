"""PURE: nodes that lost a pod lately: a replacement goes elsewhere if it can, for a while.

A wish to the scheduler and no order: on a cluster of one node, or when all others are full, the same node is better
than none. What the cluster itself did (drain, preemption) needs no such wish: there the scheduler knows.
"""

from collections.abc import Iterable

from elasticjob_operator.model.job_state import Ledger
from elasticjob_operator.policy.slots.ownership import Owner, Standing

COOL_DOWN_S = 600.0
MOST = 8
"""Nodes named in one pod: the last ones."""


def note_losses(ledger: Ledger, owners: Iterable[Owner], *, lost: frozenset[str], monotonic_s: float) -> None:
    """Take in whose pods have failed or are lost (uids) now."""
    known = {node: until_s for node, until_s in ledger.avoided_until_s.items() if until_s > monotonic_s}
    for owner in owners:
        if owner.pod is not None and owner.pod.node_name and _is_loss(owner, lost):
            known[owner.pod.node_name] = monotonic_s + COOL_DOWN_S
    ledger.avoided_until_s = known


def _is_loss(owner: Owner, lost: frozenset[str]) -> bool:
    assert owner.pod is not None
    return owner.pod.uid in lost or (owner.standing is Standing.FAILED and not owner.pod.disrupted)


def avoided_nodes(ledger: Ledger, monotonic_s: float) -> tuple[str, ...]:
    """The nodes to avoid, by name."""
    newest = sorted(ledger.avoided_until_s.items(), key=lambda item: (-item[1], item[0]))
    return tuple(sorted(node for node, until_s in newest[:MOST] if until_s > monotonic_s))

"""The slots whose pod should join soon; a round that forms waits for them (last call).

A pod is not expected if the cluster reports that it cannot start (no node, no image). It is not expected either if it
has not joined for too long, or if the API server refuses to create it (quota, webhook). The record is rarely rewritten:
a slot that has joined may remain in it, because it is not missing.
"""

from collections.abc import Iterable, Mapping

from elasticjob_operator.model.slot_pod import PodState, SlotPod

EXPECTED_FOR_S = 60.0
"""Seconds after its creation in which a pod is expected. If it has not joined by then, something is wrong with it."""


def expected_slots(
    owners: Mapping[int, SlotPod], *, joined: frozenset[int], now_s: float, refused: bool = False
) -> frozenset[int]:
    """Return the slots that should join soon; `refused`: the last attempt to create pods has failed."""
    missing = {slot: owner for slot, owner in owners.items() if slot not in joined}
    return frozenset(slot for slot, owner in missing.items() if _is_expected(owner, now_s, refused=refused))


def _is_expected(owner: SlotPod, now_s: float, *, refused: bool) -> bool:
    if owner.state is PodState.PENDING_CREATE:
        return not refused
    if owner.state is PodState.CREATED:
        return True
    pod = owner.pod
    if owner.state is not PodState.LIVE or pod is None:
        return False
    return not pod.is_blocked and now_s - pod.created_s < EXPECTED_FOR_S


def must_rewrite(written: frozenset[int], wanted: frozenset[int], *, joined: Iterable[int]) -> bool:
    """Return whether the record lacks a slot, or has one that is neither expected nor joined."""
    return bool(wanted - written) or bool(written - wanted - frozenset(joined))

"""PURE: the slots whose pod should join within a moment, for which a forming round makes a last call.

A pod is not expected if the cluster reports that it cannot start it (no node, no image). Nor is one that has been young
for too long, or one that the API server refuses to create (quota, webhook). Written seldom: a slot that has joined may
stay in the record, for it is not missing.
"""

from collections.abc import Iterable, Mapping

from elasticjob_operator.policy.slots.ownership import PodState, SlotPod

EXPECTED_FOR_S = 60.0
"""A pod older than this that has not joined is not waited for: something is wrong with it."""


def expected_slots(
    owners: Mapping[int, SlotPod], *, joined: frozenset[int], now_s: float, refused: bool = False
) -> frozenset[int]:
    """Slots that have not joined and should soon; with `refused` the last attempt to create pods has failed."""
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
    """The record misses a slot, or holds one that is neither expected any more nor here."""
    return bool(wanted - written) or bool(written - wanted - frozenset(joined))

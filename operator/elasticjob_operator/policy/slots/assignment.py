"""PURE: the next slot map: which slots there are, and which pod owns each.

The map alone is ownership. Replacing a pod and scaling down are the same act: the map changes, and a pod that
it does not name is deleted. Slots go in this order: those whose pod is dropped anyway, those without a live
agent, then the highest, so that survivors keep their ranks. New slots take the lowest free numbers.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from elasticjob_api.records import SlotOwner
from elasticjob_operator.model.pod import Pod
from elasticjob_operator.policy.slots.ownership import PodState, SlotPod

NO_SLOTS: Mapping[int, str] = MappingProxyType({})
NewName = Callable[[int], str]
"""Draws a pod name for a slot that no pod ever had."""


def next_slots(
    current: Mapping[int, SlotOwner],
    *,
    wanted: int,
    dropped: frozenset[int],
    with_agent: frozenset[int],
    new_name: NewName,
    unnamed: Mapping[int, str] = NO_SLOTS,
) -> dict[int, SlotOwner]:
    """`current` with `wanted` slots; those in `dropped` that stay get a new name.

    A slot in `unnamed` takes the pod that is given there instead of a new one.
    """
    surplus = max(0, len(current) - wanted)
    victims = set(removal_order(current, dropped=dropped, with_agent=with_agent)[:surplus])
    kept = {slot: owner for slot, owner in current.items() if slot not in victims}
    numbers = [*kept, *_free_slots(kept, wanted - len(kept))]
    anew = {n for n in numbers if n in dropped or n not in kept}
    return {n: SlotOwner(unnamed.get(n) or new_name(n)) if n in anew else kept[n] for n in sorted(numbers)}


def removal_order(
    current: Mapping[int, SlotOwner], *, dropped: frozenset[int], with_agent: frozenset[int]
) -> list[int]:
    """The slots of the map, first to go first."""
    return sorted(current, key=lambda slot: (slot not in dropped, slot in with_agent, -slot))


def _free_slots(taken: Mapping[int, SlotOwner], count: int) -> list[int]:
    return [n for n in range(len(taken) + max(0, count)) if n not in taken][: max(0, count)]


def unnamed_pods(pods: Mapping[str, Pod], owners: Mapping[int, SlotPod], *, since_s: float | None) -> dict[int, str]:
    """Slot → the youngest live pod of this life that no slot names, where the slot's own pod is gone.

    A map that was restored from a backup is older than such pods. The caller leaves out pods that were dropped from the
    map for a reason. `since_s` is when this life of the job began: an agent of the life before would bring its old
    round along.
    """
    named = {owner.name for owner in owners.values()}
    found: dict[int, str] = {}
    for pod in sorted(pods.values(), key=lambda pod: (pod.created_s, pod.name)):
        is_free = pod.slot is not None and (pod.slot not in owners or owners[pod.slot].state is PodState.ABSENT)
        if pod.is_live and is_free and pod.name not in named and since_s is not None and pod.created_s >= since_s:
            found[pod.slot or 0] = pod.name
    return found


def adopt(pods: Mapping[str, Pod], *, wanted: int, new_name: NewName) -> dict[int, SlotOwner]:
    """The map when there is none (a new job, or etcd was wiped): each slot takes its youngest live pod."""
    youngest: dict[int, Pod] = {}
    for pod in sorted(pods.values(), key=lambda pod: (pod.created_s, pod.name)):
        if pod.is_live and pod.slot is not None:
            youngest[pod.slot] = pod
    kept = {slot: SlotOwner(youngest[slot].name) for slot in sorted(youngest)[:wanted]}
    fresh = {slot: SlotOwner(new_name(slot)) for slot in _free_slots(kept, wanted - len(kept))}
    return dict(sorted({**kept, **fresh}.items()))

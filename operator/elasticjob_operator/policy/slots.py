"""PURE: the next slot map: which slots there are, and which pod owns each.

The map alone is ownership. Replacing a pod and scaling down are the same act: the map changes, and a pod that
it does not name is deleted. Slots go in this order: those whose pod is dropped anyway, those without a live
agent, then the highest, so that survivors keep their ranks. New slots take the lowest free numbers.
"""

from collections.abc import Callable, Mapping

from elasticjob_api.records import SlotOwner
from elasticjob_operator.pods import Pod

NewName = Callable[[int], str]
"""Draws a pod name for a slot that no pod ever had."""


def next_slots(
    current: Mapping[int, SlotOwner],
    *,
    wanted: int,
    dropped: frozenset[int],
    with_agent: frozenset[int],
    new_name: NewName,
) -> dict[int, SlotOwner]:
    """`current` with `wanted` slots; those in `dropped` that stay get a new name."""
    surplus = max(0, len(current) - wanted)
    victims = set(removal_order(current, dropped=dropped, with_agent=with_agent)[:surplus])
    kept = {slot: owner for slot, owner in current.items() if slot not in victims}
    numbers = [*kept, *_free(kept, wanted - len(kept))]
    return {n: SlotOwner(new_name(n)) if n in dropped or n not in kept else kept[n] for n in sorted(numbers)}


def removal_order(
    current: Mapping[int, SlotOwner], *, dropped: frozenset[int], with_agent: frozenset[int]
) -> list[int]:
    """The slots of the map, first to go first."""
    return sorted(current, key=lambda slot: (slot not in dropped, slot in with_agent, -slot))


def _free(taken: Mapping[int, SlotOwner], count: int) -> list[int]:
    return [n for n in range(len(taken) + max(0, count)) if n not in taken][: max(0, count)]


def adopted(pods: Mapping[str, Pod], *, wanted: int, new_name: NewName) -> dict[int, SlotOwner]:
    """The map when there is none (a new job, or etcd was wiped): each slot takes its youngest live pod."""
    youngest: dict[int, Pod] = {}
    for pod in sorted(pods.values(), key=lambda pod: (pod.created_s, pod.name)):
        if pod.live and pod.slot is not None:
            youngest[pod.slot] = pod
    kept = {slot: SlotOwner(youngest[slot].name) for slot in sorted(youngest)[:wanted]}
    fresh = {slot: SlotOwner(new_name(slot)) for slot in _free(kept, wanted - len(kept))}
    return dict(sorted({**kept, **fresh}.items()))

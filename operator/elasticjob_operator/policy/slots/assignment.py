"""The next slot map: which slots there are, and which pod owns each slot.

Only the slot map decides ownership. A replacement and a scale-down work in the same way: the slot map changes, and a
pod that it does not name is deleted. Slots are removed in this order: slots whose pod is dropped anyway, slots without
a live agent, then the highest numbers. So survivors keep their ranks. New slots take the lowest free numbers.
"""

from collections.abc import Callable, Container, Iterable, Mapping
from types import MappingProxyType

from elasticjob_api.records import SlotOwner
from elasticjob_operator.model.pod import Pod
from elasticjob_operator.model.slot_pod import SlotPod

NO_SLOTS: Mapping[int, str] = MappingProxyType({})
NewName = Callable[[int], str]
"""Returns a random pod name for a slot; no pod has ever had that name."""


def next_slots(
    current: Mapping[int, SlotOwner],
    *,
    wanted: int,
    dropped: frozenset[int],
    with_agent: frozenset[int],
    new_name: NewName,
    unnamed: Mapping[int, str] = NO_SLOTS,
) -> dict[int, SlotOwner]:
    """Return `current` with `wanted` slots; slots in `dropped` that remain get a new pod name.

    A slot in `unnamed` gets the pod name given there instead of a new one.
    """
    surplus = max(0, len(current) - wanted)
    victims = set(removal_order(current, dropped=dropped, with_agent=with_agent)[:surplus])
    remaining = {slot: owner for slot, owner in current.items() if slot not in victims}
    numbers = [*remaining, *_free_slots(remaining, wanted - len(remaining))]
    anew = {n for n in numbers if n in dropped or n not in remaining}
    return {n: SlotOwner(unnamed.get(n) or new_name(n)) if n in anew else remaining[n] for n in sorted(numbers)}


def removal_order(
    current: Mapping[int, SlotOwner], *, dropped: frozenset[int], with_agent: frozenset[int]
) -> list[int]:
    """Return the slots of the slot map, in the order in which they are removed."""
    return sorted(current, key=lambda slot: (slot not in dropped, slot in with_agent, -slot))


def _free_slots(taken: Mapping[int, SlotOwner], count: int) -> list[int]:
    return [n for n in range(len(taken) + max(0, count)) if n not in taken][: max(0, count)]


def unnamed_pods(pods: Iterable[Pod], owners: Mapping[int, SlotPod], *, dropped: Container[int]) -> dict[int, str]:
    """Return the youngest live pod that no slot names, for each slot without a pod or in `dropped`.

    Such pods exist after the restore of an older slot map from a backup. The caller leaves out pods that were dropped
    from the slot map for a reason.
    """
    named = {owner.name for owner in owners.values()}
    found: dict[int, str] = {}
    for pod in sorted(pods, key=lambda pod: (pod.created_s, pod.name)):
        is_free = pod.slot is not None and (pod.slot not in owners or pod.slot in dropped)
        if pod.is_live and is_free and pod.name not in named:
            found[pod.slot or 0] = pod.name
    return found


def adopt(pods: Mapping[str, Pod], *, wanted: int, new_name: NewName) -> dict[int, SlotOwner]:
    """Return a slot map for a job without one (a new job, or etcd was wiped): each slot takes its youngest live pod."""
    youngest: dict[int, Pod] = {}
    for pod in sorted(pods.values(), key=lambda pod: (pod.created_s, pod.name)):
        if pod.is_live and pod.slot is not None:
            youngest[pod.slot] = pod
    adopted = {slot: SlotOwner(youngest[slot].name) for slot in sorted(youngest)[:wanted]}
    fresh = {slot: SlotOwner(new_name(slot)) for slot in _free_slots(adopted, wanted - len(adopted))}
    return dict(sorted({**adopted, **fresh}.items()))

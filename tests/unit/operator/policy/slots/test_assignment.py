"""The next slot map: kept slots, new names, the order of removal, and adoption after a wipe."""

import itertools
from collections.abc import Callable

import pytest

from elasticjob_api.records import SlotOwner
from elasticjob_operator.policy.slots.assignment import adopt, next_slots, removal_order
from testing.builders import by_name, names, pod


def new_names() -> Callable[[int], str]:
    """Return a function that returns new pod names."""
    count = itertools.count()
    return lambda slot: f"j-{slot}-new{next(count)}"


def change(
    *current: int, wanted: int, dropped: tuple[int, ...] = (), alive: tuple[int, ...] = ()
) -> dict[int, SlotOwner]:
    return next_slots(
        names(current), wanted=wanted, dropped=frozenset(dropped), with_agent=frozenset(alive), new_name=new_names()
    )


def pods_of(slots: dict[int, SlotOwner]) -> dict[int, str]:
    return {slot: owner.pod for slot, owner in slots.items()}


def test_a_slot_map_of_the_wanted_size_does_not_change() -> None:
    assert change(0, 1, 2, wanted=3, alive=(0, 1, 2)) == names([0, 1, 2])


def test_the_slot_of_a_dropped_pod_gets_a_new_name_and_no_other_slot_changes() -> None:
    after = pods_of(change(0, 1, 2, wanted=3, dropped=(1,)))
    assert after == {0: "j-0-a", 1: "j-1-new0", 2: "j-2-a"}


def test_two_slots_never_get_the_same_new_name() -> None:
    after = pods_of(change(wanted=4))
    assert len(set(after.values())) == 4


@pytest.mark.parametrize(
    ("current", "wanted", "after"),
    [((), 2, [0, 1]), ((0, 1), 4, [0, 1, 2, 3]), ((0, 2), 3, [0, 1, 2]), ((1, 3), 4, [0, 1, 2, 3]), ((5,), 2, [0, 5])],
)
def test_new_slots_take_the_lowest_free_numbers(current: tuple[int, ...], wanted: int, after: list[int]) -> None:
    assert list(change(*current, wanted=wanted)) == after


@pytest.mark.parametrize(
    ("dropped", "alive", "order"),
    [
        ((), (0, 1, 2, 3), [3, 2, 1, 0]),  # all alike: the highest is removed, survivors keep their ranks
        ((), (0, 2, 3), [1, 3, 2, 0]),  # without a live agent before the highest
        ((0,), (0, 1, 2, 3), [0, 3, 2, 1]),  # a pod that is dropped anyway is removed first
        ((2,), (2, 3), [2, 1, 0, 3]),
    ],
)
def test_scaling_down_removes_slots_without_an_agent_first_and_then_the_highest(
    dropped: tuple[int, ...], alive: tuple[int, ...], order: list[int]
) -> None:
    found = removal_order(names(range(4)), dropped=frozenset(dropped), with_agent=frozenset(alive))
    assert found == order


@pytest.mark.parametrize(("dropped", "left"), [((), [0, 1]), ((0,), [1, 2]), ((0, 1), [2])])
def test_scaling_down_removes_dropped_pods_without_replacement(dropped: tuple[int, ...], left: list[int]) -> None:
    after = change(0, 1, 2, wanted=len(left), dropped=dropped, alive=(0, 1, 2))
    assert after == names(left)


def test_scaling_down_replaces_the_dropped_pods_of_remaining_slots() -> None:
    after = pods_of(change(0, 1, 2, wanted=2, dropped=(0, 1), alive=(0, 1, 2)))
    assert after == {0: "j-0-new0", 2: "j-2-a"}


def test_a_new_job_gets_new_names_for_all_its_slots() -> None:
    assert pods_of(adopt({}, wanted=2, new_name=new_names())) == {0: "j-0-new0", 1: "j-1-new1"}


def test_after_a_wipe_each_slot_adopts_its_pod() -> None:
    assert adopt(by_name(pod(0), pod(1)), wanted=2, new_name=new_names()) == names([0, 1])


def test_of_several_live_pods_the_youngest_is_adopted() -> None:
    old, young = pod(0, name="j-0-old", created_s=1.0), pod(0, name="j-0-young", created_s=2.0)
    assert pods_of(adopt(by_name(young, old), wanted=1, new_name=new_names())) == {0: "j-0-young"}


@pytest.mark.parametrize("fields", [{"terminating": True}, {"phase": "Failed"}, {"phase": "Succeeded"}])
def test_a_pod_that_is_about_to_end_or_has_ended_is_not_adopted(fields: dict[str, object]) -> None:
    assert pods_of(adopt(by_name(pod(0, **fields)), wanted=1, new_name=new_names())) == {0: "j-0-new0"}


def test_a_pod_without_a_slot_is_not_adopted() -> None:
    stray = pod(0)
    assert pods_of(adopt({"x": type(stray)(name="x", uid="u")}, wanted=1, new_name=new_names())) == {0: "j-0-new0"}


def test_no_more_pods_are_adopted_than_wanted() -> None:
    assert adopt(by_name(pod(0), pod(1), pod(2)), wanted=2, new_name=new_names()) == names([0, 1])


def test_a_slot_without_a_pod_gets_a_new_name_between_adopted_pods() -> None:
    after = pods_of(adopt(by_name(pod(0), pod(2)), wanted=3, new_name=new_names()))
    assert after == {0: "j-0-a", 1: "j-1-new0", 2: "j-2-a"}

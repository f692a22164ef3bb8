"""Slots as text."""

import pytest

from elasticjob_api.slot_ranges import format_slots, parse_slots


def test_slots_are_in_rank_order_and_consecutive_ones_are_a_range() -> None:
    assert format_slots([0, 1, 2, 5, 4, 7]) == "0-2,5,4,7"
    assert format_slots([]) == ""


@pytest.mark.parametrize(
    ("text", "slots"), [("", []), ("3", [3]), ("0-2,7,5", [0, 1, 2, 7, 5]), ("0-1,...", [0, 1]), ("x,-1,2-", [])]
)
def test_slots_are_read_in_rank_order(text: str, slots: list[int]) -> None:
    assert list(parse_slots(text)) == slots


def test_a_range_ends_at_the_highest_slot() -> None:
    assert list(parse_slots("2-999999999", highest=3)) == [2, 3]
    assert sum(1 for _ in parse_slots("0-999999999")) == 65536

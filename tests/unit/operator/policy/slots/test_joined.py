"""The pods that joined before this process started."""

from dataclasses import replace

import pytest

from elasticjob_api.status import RoundStatus
from elasticjob_operator.model.timestamps import to_rfc3339_ms
from elasticjob_operator.policy.slots.joined import joined_before
from testing.builders import NOW_S, pod


def round_(slots: str, *, at_s: float = NOW_S, start_time: str = "") -> RoundStatus:
    return RoundStatus(round=1, start_time=start_time or to_rfc3339_ms(at_s), slots=slots)


def joined(*rounds: RoundStatus, **created_s: float) -> set[str]:
    """Return the pods that joined; `s3=5.0`: the pod of slot 3 was created 5 s before `NOW_S`."""
    pods = [pod(int(slot[1:]), uid=slot, created_s=NOW_S - before_s) for slot, before_s in created_s.items()]
    return set(joined_before(rounds, pods))


def test_a_pod_that_is_older_than_a_round_of_its_slot_has_joined() -> None:
    assert joined(round_("0-1,3"), s0=5.0, s1=5.0, s2=5.0, s3=5.0) == {"s0", "s1", "s3"}


def test_a_pod_that_is_newer_than_the_last_round_of_its_slot_has_not() -> None:
    assert joined(round_("0-1", at_s=NOW_S - 10.0), round_("0"), s0=5.0, s1=5.0) == {"s0"}


def test_an_older_round_that_is_listed_later_changes_nothing() -> None:
    assert joined(round_("0"), round_("0", at_s=NOW_S - 10.0), s0=5.0) == {"s0"}


def test_a_pod_without_a_slot_is_in_no_round() -> None:
    assert joined_before([round_("0")], [replace(pod(0), slot=None)]) == frozenset()


@pytest.mark.parametrize("slots", ["", "...", "0x", "-", "0-", "٠", "0-1-2", "9" * 5000])
def test_an_invalid_list_of_slots_names_no_slot(slots: str) -> None:
    assert joined(round_(slots), s0=5.0) == set()


def test_a_truncated_list_names_the_slots_that_it_still_has() -> None:
    assert joined(round_("0-0,2,..."), s0=5.0, s2=5.0, s3=5.0) == {"s0", "s2"}


def test_a_forged_list_is_read_only_up_to_the_highest_slot_with_a_pod() -> None:
    assert joined(round_("0-999999999"), s0=5.0, s1=5.0) == {"s0", "s1"}


def test_a_round_whose_time_cannot_be_read_proves_nothing() -> None:
    assert joined(round_("0", start_time="yesterday"), s0=5.0) == set()

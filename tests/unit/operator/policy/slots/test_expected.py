"""For which slots a round makes its last call, and when that record is written again."""

from typing import Any

import pytest

from elasticjob_operator.policy.slots.expected import EXPECTED_FOR_S, expected_slots, must_rewrite
from elasticjob_operator.policy.slots.ownership import PodState, SlotPod
from testing.builders import NOW_S, pod


def is_expected(standing: PodState, *, joined: bool = False, refused: bool = False, **fields: Any) -> bool:
    absent = {PodState.PENDING_CREATE, PodState.CREATED, PodState.UNKNOWN, PodState.ABSENT}
    owner = SlotPod("j-0-a", standing, None if standing in absent else pod(0, **fields))
    return expected_slots({0: owner}, joined=frozenset({0} if joined else ()), now_s=NOW_S, refused=refused) == {0}


@pytest.mark.parametrize(
    ("standing", "expected"),
    [
        (PodState.PENDING_CREATE, True),
        (PodState.CREATED, True),
        (PodState.LIVE, True),
        (PodState.UNKNOWN, False),
        (PodState.TERMINATING, False),
        (PodState.FAILED, False),
        (PodState.COMPLETED, False),
        (PodState.ABSENT, False),
    ],
)
def test_what_comes_or_may_yet_join_is_expected(standing: PodState, *, expected: bool) -> None:
    assert is_expected(standing) is expected


def test_who_has_joined_is_not_missing() -> None:
    assert not is_expected(PodState.LIVE, joined=True)


@pytest.mark.parametrize(
    ("standing", "expected"), [(PodState.PENDING_CREATE, False), (PodState.CREATED, True), (PodState.LIVE, True)]
)
def test_a_pod_that_the_api_server_refuses_to_create_is_not_waited_for(standing: PodState, *, expected: bool) -> None:
    assert is_expected(standing, refused=True) is expected


def test_a_pod_that_the_cluster_cannot_start_is_not_waited_for() -> None:
    assert not is_expected(PodState.LIVE, phase="Pending", reason="Unschedulable")


@pytest.mark.parametrize(("age_s", "expected"), [(EXPECTED_FOR_S - 1, True), (EXPECTED_FOR_S, False)])
def test_a_pod_that_has_not_joined_for_long_is_not_waited_for(age_s: float, *, expected: bool) -> None:
    assert is_expected(PodState.LIVE, created_s=NOW_S - age_s) is expected


@pytest.mark.parametrize(
    ("written", "wanted", "joined", "rewrite"),
    [
        ({0, 1}, {0, 1}, {}, False),
        ({0}, {0, 1}, {}, True),  # a slot is missing
        ({0, 1}, {1}, {0}, False),  # who has joined may stay in the record
        ({0, 1}, {1}, {}, True),  # not expected any more, and not here
        ({}, {}, {0}, False),
    ],
)
def test_the_record_is_written_as_seldom_as_it_can_be(
    written: set[int], wanted: set[int], joined: set[int], *, rewrite: bool
) -> None:
    assert must_rewrite(frozenset(written), frozenset(wanted), joined=joined) is rewrite

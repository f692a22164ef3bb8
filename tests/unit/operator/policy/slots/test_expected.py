"""The slots for which a forming round waits, and when that record is rewritten."""

from typing import Any

import pytest

from elasticjob_operator.model.slot_pod import PodState, SlotPod
from elasticjob_operator.policy.slots.expected import EXPECTED_FOR_S, expected_slots, must_rewrite
from testing.builders import NOW_S, pod


def is_expected(state: PodState, *, joined: bool = False, refused: bool = False, **fields: Any) -> bool:
    absent = {PodState.PENDING_CREATE, PodState.CREATED, PodState.UNKNOWN, PodState.ABSENT}
    owner = SlotPod("j-0-a", state, None if state in absent else pod(0, **fields))
    return expected_slots({0: owner}, joined=frozenset({0} if joined else ()), now_s=NOW_S, refused=refused) == {0}


@pytest.mark.parametrize(
    ("state", "expected"),
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
def test_a_pod_that_may_join_soon_is_expected(state: PodState, *, expected: bool) -> None:
    assert is_expected(state) is expected


def test_a_slot_that_has_joined_is_not_expected() -> None:
    assert not is_expected(PodState.LIVE, joined=True)


@pytest.mark.parametrize(
    ("state", "expected"), [(PodState.PENDING_CREATE, False), (PodState.CREATED, True), (PodState.LIVE, True)]
)
def test_a_pod_that_the_api_server_refuses_to_create_is_not_expected(state: PodState, *, expected: bool) -> None:
    assert is_expected(state, refused=True) is expected


def test_a_pod_that_the_cluster_cannot_start_is_not_expected() -> None:
    assert not is_expected(PodState.LIVE, phase="Pending", reason="Unschedulable")


@pytest.mark.parametrize(("age_s", "expected"), [(EXPECTED_FOR_S - 1, True), (EXPECTED_FOR_S, False)])
def test_a_pod_that_has_not_joined_for_too_long_is_not_expected(age_s: float, *, expected: bool) -> None:
    assert is_expected(PodState.LIVE, created_s=NOW_S - age_s) is expected


@pytest.mark.parametrize(
    ("written", "wanted", "joined", "rewrite"),
    [
        ({0, 1}, {0, 1}, {}, False),
        ({0}, {0, 1}, {}, True),  # a slot is missing
        ({0, 1}, {1}, {0}, False),  # a slot that has joined may remain in the record
        ({0, 1}, {1}, {}, True),  # neither expected any more nor joined
        ({}, {}, {0}, False),
    ],
)
def test_the_record_is_rewritten_only_when_necessary(
    written: set[int], wanted: set[int], joined: set[int], *, rewrite: bool
) -> None:
    assert must_rewrite(frozenset(written), frozenset(wanted), joined=joined) is rewrite

"""Proof by events on a link, and the dials between them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elasticjob_agent.rendezvous.protocol.crash_proof import (
    RETRY_DELAYS_S,
    STABLE_S,
    DialOutcome,
    Link,
    LinkStep,
    adopt,
    first_step,
    next_step,
)

THEIRS, OTHER, OWN, REFUSED, NOTHING, ENDED = DialOutcome


def test_a_link_of_the_predecessor_counts_as_established() -> None:
    assert next_step(adopt().link, REFUSED).is_crashed
    assert next_step(adopt().link, OTHER).is_crashed
    assert not next_step(adopt().link, NOTHING).is_crashed
    assert not next_step(adopt().link, THEIRS).is_crashed


def test_many_nodes_are_dialed_over_time_and_a_few_nodes_at_once() -> None:
    crowd, few = first_step(members=1000).dial_in_s, first_step(members=3).dial_in_s
    assert crowd is not None
    assert few is not None
    assert few <= RETRY_DELAYS_S[1] < crowd < 1.0


def test_a_member_with_a_link_to_the_predecessor_is_dialed_at_once() -> None:
    assert adopt().dial_in_s == 0.0


def follow(*events: DialOutcome, lasted_s: float = 60.0) -> LinkStep:
    """Return the step after these events."""
    next_ = first_step()
    for outcome in events:
        assert not next_.is_crashed
        next_ = next_step(next_.link, outcome, lasted_s=lasted_s)
    return next_


@pytest.mark.parametrize(
    ("events", "gone"),
    [
        pytest.param([THEIRS, ENDED, REFUSED], True, id="established, ended, refused"),
        pytest.param([THEIRS, ENDED, OTHER], True, id="established, ended, another incarnation answers"),
        pytest.param([REFUSED], False, id="refused, never established"),
        pytest.param([OTHER], False, id="another answers, never established"),
        pytest.param([THEIRS], False, id="established"),
        pytest.param([THEIRS, ENDED], False, id="an end alone"),
        pytest.param([THEIRS, ENDED, NOTHING], False, id="a time-out after the end"),
        pytest.param([THEIRS, ENDED, OWN], False, id="a socket that connected to itself"),
        pytest.param([THEIRS, ENDED, THEIRS], False, id="it answers again"),
        pytest.param([THEIRS, ENDED, NOTHING, REFUSED], True, id="refused at a later dial"),
        pytest.param([NOTHING, REFUSED, THEIRS, ENDED, REFUSED], True, id="it started late"),
    ],
)
def test_events_that_prove_an_end(events: list[DialOutcome], gone: bool) -> None:  # noqa: FBT001 -- a column of the table
    assert follow(*events).is_crashed is gone


@pytest.mark.parametrize("outcome", [REFUSED, OTHER, OWN, NOTHING])
def test_a_listener_that_never_answered_is_dialed_a_few_times_before_its_lease_decides(outcome: DialOutcome) -> None:
    pauses = [follow(*[outcome] * count).dial_in_s for count in range(len(RETRY_DELAYS_S) + 2)]
    assert pauses == [*RETRY_DELAYS_S, None, None]


def test_the_end_of_a_lasting_link_is_followed_by_a_dial_at_once() -> None:
    assert follow(THEIRS, ENDED).dial_in_s == 0.0
    assert follow(NOTHING, NOTHING, THEIRS, ENDED).dial_in_s == 0.0


def test_an_established_link_is_not_dialed() -> None:
    assert follow(THEIRS) == LinkStep(Link(was_established=True, tries=1))


def test_a_listener_that_closes_each_link_at_once_is_left_to_its_lease() -> None:
    flapping = [follow(*[THEIRS, ENDED] * count, lasted_s=STABLE_S / 2) for count in range(1, len(RETRY_DELAYS_S) + 1)]
    assert [next_.dial_in_s for next_ in flapping] == [*RETRY_DELAYS_S[1:], None]


@given(st.lists(st.sampled_from(DialOutcome)))
def test_only_a_denial_after_the_end_of_an_established_link_is_proof(events: list[DialOutcome]) -> None:
    link, was_established = Link(), False
    for outcome in events:
        next_ = next_step(link, outcome)
        assert next_.is_crashed == (was_established and outcome in {REFUSED, OTHER})
        was_established = was_established or outcome in {THEIRS, ENDED}
        link = next_.link

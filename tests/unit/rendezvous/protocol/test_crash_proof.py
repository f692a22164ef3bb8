"""What the events on a link prove, and when they lead to another dial."""

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


def test_a_link_that_another_had_counts_as_having_stood() -> None:
    assert next_step(adopt().link, REFUSED).is_crashed
    assert next_step(adopt().link, OTHER).is_crashed
    assert not next_step(adopt().link, NOTHING).is_crashed
    assert not next_step(adopt().link, THEIRS).is_crashed


def test_a_crowd_may_start_its_workers_before_it_is_dialed_and_a_few_nodes_are_dialed_at_once() -> None:
    crowd, few = first_step(members=1000).dial_in_s, first_step(members=3).dial_in_s
    assert crowd is not None
    assert few is not None
    assert few <= RETRY_DELAYS_S[1] < crowd < 1.0


def test_what_another_had_a_link_to_is_dialed_at_once() -> None:
    assert adopt().dial_in_s == 0.0


def follow(*events: DialOutcome, lasted_s: float = 60.0) -> LinkStep:
    """Where a link is after these events."""
    next_ = first_step()
    for heard in events:
        assert not next_.is_crashed
        next_ = next_step(next_.link, heard, lasted_s=lasted_s)
    return next_


@pytest.mark.parametrize(
    ("events", "gone"),
    [
        pytest.param([THEIRS, ENDED, REFUSED], True, id="it stood, it ended, nobody listens"),
        pytest.param([THEIRS, ENDED, OTHER], True, id="another incarnation answers in its place"),
        pytest.param([REFUSED], False, id="refused, and it never stood"),
        pytest.param([OTHER], False, id="another answers, and it never stood"),
        pytest.param([THEIRS], False, id="it stands"),
        pytest.param([THEIRS, ENDED], False, id="an end alone"),
        pytest.param([THEIRS, ENDED, NOTHING], False, id="a time-out after the end"),
        pytest.param([THEIRS, ENDED, OWN], False, id="a socket that connected to itself"),
        pytest.param([THEIRS, ENDED, THEIRS], False, id="it answers again"),
        pytest.param([THEIRS, ENDED, NOTHING, REFUSED], True, id="refused at a later dial"),
        pytest.param([NOTHING, REFUSED, THEIRS, ENDED, REFUSED], True, id="it came up late"),
    ],
)
def test_proof(events: list[DialOutcome], gone: bool) -> None:  # noqa: FBT001 -- a column of the table
    assert follow(*events).is_crashed is gone


@pytest.mark.parametrize("heard", [REFUSED, OTHER, OWN, NOTHING])
def test_a_listener_that_never_answered_is_dialed_a_few_times_and_then_left_to_its_lease(heard: DialOutcome) -> None:
    pauses = [follow(*[heard] * count).dial_in_s for count in range(len(RETRY_DELAYS_S) + 2)]
    assert pauses == [*RETRY_DELAYS_S, None, None]


def test_the_end_of_a_lasting_link_is_followed_by_a_dial_at_once() -> None:
    assert follow(THEIRS, ENDED).dial_in_s == 0.0
    assert follow(NOTHING, NOTHING, THEIRS, ENDED).dial_in_s == 0.0


def test_a_link_that_stands_is_not_dialed() -> None:
    assert follow(THEIRS) == LinkStep(Link(was_established=True, tries=1))


def test_a_listener_that_hangs_up_again_and_again_is_left_to_its_lease() -> None:
    flapping = [follow(*[THEIRS, ENDED] * count, lasted_s=STABLE_S / 2) for count in range(1, len(RETRY_DELAYS_S) + 1)]
    assert [next_.dial_in_s for next_ in flapping] == [*RETRY_DELAYS_S[1:], None]


@given(st.lists(st.sampled_from(DialOutcome)))
def test_nothing_else_is_proof_than_a_denial_after_the_end_of_a_link_that_stood(events: list[DialOutcome]) -> None:
    link, stood = Link(), False
    for heard in events:
        next_ = next_step(link, heard)
        assert next_.is_crashed == (stood and heard in {REFUSED, OTHER})
        stood = stood or heard in {THEIRS, ENDED}
        link = next_.link

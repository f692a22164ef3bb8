"""The barrier, the members of a round, and when it closes."""

import pytest

from elasticjob_agent.rendezvous.protocol import membership
from elasticjob_agent.rendezvous.protocol.membership import (
    NEWCOMER_WAIT_S,
    OPERATOR_REACTION_S,
    CloseDecision,
    Observations,
)
from elasticjob_api.records import TombstoneReason
from tests.unit.rendezvous.views import ViewBuilder, observed_at, slots_of, view_builder


def unready(job: ViewBuilder, round_: int) -> list[int]:
    return slots_of(membership.not_ready(job.build(), round_))


def decide(job: ViewBuilder, round_: int, when: Observations) -> CloseDecision:
    view = job.build()
    assert view.spec is not None
    return membership.decide(view, view.spec, round_, when)


def chosen(close: CloseDecision) -> list[int] | None:
    return None if close.nodes is None else slots_of(close.nodes)


@pytest.mark.parametrize(
    ("job", "late"),
    [
        pytest.param(view_builder().nodes(0, 1), [], id="idle nodes are ready for the first round"),
        pytest.param(
            view_builder().node(0, ready=2).node(1, ready=1).members(1, 0, 1), [1], id="a member still stopping"
        ),
        pytest.param(view_builder().nodes(0, 1).members(1, 0, 1), [0, 1], id="idle does not count for members"),
        pytest.param(view_builder().node(0, ready=2).nodes(1).members(1, 0), [], id="idle counts for a joiner"),
        pytest.param(view_builder().node(0, ready=2).node(1, ready=1).members(1, 0), [1], id="a spare that ran once"),
        pytest.param(
            view_builder().node(0, ready=2).node(1, ready=1, leaving=True).members(1, 0, 1),
            [1],
            id="a leaving member",
        ),
        pytest.param(
            view_builder().node(0, ready=2).node(1, ready=1, leaving=True).members(1, 0), [], id="a leaving spare"
        ),
        pytest.param(view_builder().node(0, ready=2).members(1, 0, 1), [], id="no wait for a member without a key"),
        pytest.param(view_builder().node(0, ready=3).members(1, 0), [0], id="ready for another round is not ready"),
        pytest.param(
            view_builder().owned_by(s0="pod-0").node(0, ready=2).node(1, ready=1),
            [],
            id="a key without a slot is ignored",
        ),
        pytest.param(
            view_builder().owned_by(s0="pod-0").node(0, ready=2).node(1, ready=1).members(1, 0, 1),
            [1],
            id="a wait for a member whose slot belongs to another pod",
        ),
    ],
)
def test_the_barrier_of_round_2_waits_for(job: ViewBuilder, late: list[int]) -> None:
    assert unready(job, 2) == late


@pytest.mark.parametrize(
    ("job", "taken"),
    [
        pytest.param(view_builder(2, 3).nodes(0, 1, 2), [0, 1, 2], id="the desired number"),
        pytest.param(view_builder(1, 3, desired=2).nodes(0, 1, 2), [0, 1], id="no more than desired"),
        pytest.param(view_builder(1, 2, desired=9).nodes(0, 1, 2), [0, 1], id="never more than max"),
        pytest.param(view_builder(3, 4).nodes(0, 1), None, id="not below min"),
        pytest.param(view_builder(1, 4).nodes(), None, id="never zero nodes"),
        pytest.param(view_builder(0, 0).nodes(), None, id="not even if zero are desired"),
        pytest.param(view_builder(1, 4).nodes(0), None, id="above min the first round waits for more"),
        pytest.param(view_builder(1, 2).node(0, leaving=True).nodes(1, 2), [1, 2], id="no leaving nodes"),
        pytest.param(
            view_builder(1, 2).nodes(0, 1, 2).tombstone(0, TombstoneReason.WEDGED),
            [1, 2],
            id="no nodes with a tombstone",
        ),
        pytest.param(view_builder(2, 2).node(0).node(0, incarnation="f" * 8), None, id="one slot counts once"),
    ],
)
def test_the_first_round_closes_at_once_with(job: ViewBuilder, taken: list[int] | None) -> None:
    assert chosen(decide(job, 1, observed_at())) == taken


@pytest.mark.parametrize(
    ("job", "taken"),
    [
        pytest.param(
            view_builder(1, 4).nodes(0, 1, ready=2).members(1, 0, 1, 2), [0, 1], id="previous members do not wait"
        ),
        pytest.param(view_builder(2, 4).nodes(0, ready=2).members(1, 0, 1), None, id="below min they wait"),
        pytest.param(view_builder(1, 4).nodes(3).members(1, 0, 1), None, id="newcomers without a previous member wait"),
        pytest.param(
            view_builder(1, 3).owned_by(s0="pod-0", s1="pod-1").expected(1).nodes(0, ready=2),
            None,
            id="a wait for an expected slot",
        ),
        pytest.param(
            view_builder(1, 3).owned_by(s0="pod-0", s1="pod-1").members(1, 0, 1).expected(1).nodes(0, ready=2),
            None,
            id="also with previous members",
        ),
        pytest.param(
            view_builder(1, 3).owned_by(s0="pod-0", s1="pod-1").expected(1).members(1, 0).nodes(0, ready=2),
            [0],
            id="an older expected record had its last call",
        ),
        pytest.param(
            view_builder(1, 3).owned_by(s0="pod-0", s1="pod-1").members(1, 0).nodes(0, 1, ready=2),
            [0, 1],
            id="every slot of the map is there",
        ),
        pytest.param(
            view_builder(1, 2).owned_by(s0="pod-0", s1="pod-9").nodes(0, 1, ready=2).members(1, 0, 1),
            [0],
            id="a pod that does not own its slot is not taken",
        ),
    ],
)
def test_the_second_round_closes_at_once_with(job: ViewBuilder, taken: list[int] | None) -> None:
    assert chosen(decide(job, 2, observed_at())) == taken


def test_above_min_the_first_round_closes_one_second_after_the_last_newcomer() -> None:
    job, when = view_builder(1, 4).nodes(0, 1), observed_at(5.5, newest_key_s=5.0)
    assert decide(job, 1, when).until_s == 5.0 + NEWCOMER_WAIT_S
    assert chosen(decide(job, 1, observed_at(6.0, newest_key_s=5.0))) == [0, 1]


def test_an_expected_pod_gets_its_last_call_and_no_more() -> None:
    job = view_builder(1, 4, last_call_timeout_s=5.0).owned_by(s0="pod-0", s1="pod-1").expected(0, 1).nodes(0)
    waiting = decide(job, 1, observed_at(4.0, enough_since_s=0.0, newest_key_s=0.0))
    assert (chosen(waiting), waiting.until_s, waiting.reason) == (None, 5.0, "last call for slots [1]")
    assert chosen(decide(job, 1, observed_at(5.0, enough_since_s=0.0))) == [0]


@pytest.mark.parametrize(
    ("last_call_s", "newest_key_s", "until_s"),
    [
        pytest.param(100.0, 0.0, 100.0, id="a long last call counts from when there were enough"),
        pytest.param(100.0, 99.5, 99.5 + NEWCOMER_WAIT_S, id="a newcomer at its end delays the round"),
        pytest.param(1.0, 5.0, 5.0 + NEWCOMER_WAIT_S, id="each newcomer delays the round"),
        pytest.param(0.2, 5.0, 5.2, id="a short last call is not lengthened"),
        pytest.param(0.0, 5.0, 5.0, id="none"),
    ],
)
def test_without_an_operator_the_first_round_has_its_last_call(
    last_call_s: float, newest_key_s: float, until_s: float
) -> None:
    job = view_builder(1, 2, last_call_timeout_s=last_call_s).nodes(0)
    before = decide(job, 1, observed_at(until_s - 0.1, enough_since_s=0.0, newest_key_s=newest_key_s))
    assert (chosen(before), before.until_s) == (None, until_s)
    assert chosen(decide(job, 1, observed_at(until_s, enough_since_s=0.0, newest_key_s=newest_key_s))) == [0]


def test_a_long_last_call_does_not_delay_previous_members() -> None:
    job = view_builder(1, 4, last_call_timeout_s=100.0).nodes(0, 1, ready=2).members(1, 0, 1, 2)
    assert chosen(decide(job, 2, observed_at())) == [0, 1]


def test_below_min_the_join_timeout_applies_without_an_operator_only() -> None:
    few = view_builder(2, 4, join_timeout_s=60.0).nodes(0)
    assert decide(few, 1, observed_at(10.0, forming_since_s=5.0)).until_s == 65.0
    assert decide(few.owned_by(s0="pod-0", s1="pod-1"), 1, observed_at(10.0)).until_s is None


def shrunk() -> ViewBuilder:
    """Return a job without a trace of member 2: slots 0, 1, 2 are owned, and 0 and 1 are ready for round 2."""
    owners = {"s0": "pod-0", "s1": "pod-1", "s2": "pod-2"}
    return view_builder(1, 3).expected(0, 1, 2).owned_by(**owners).members(1, 0, 1, 2).nodes(0, 1, ready=2)


@pytest.mark.parametrize(
    "job",
    [
        pytest.param(shrunk(), id="its key is gone"),
        pytest.param(shrunk().node(2, ready=2, leaving=True), id="it leaves"),
    ],
)
def test_the_other_members_wait_a_limited_time_for_the_operators_decision_on_a_lost_slot(job: ViewBuilder) -> None:
    waiting = decide(job, 2, observed_at(7.0, forming_since_s=6.5))
    assert (chosen(waiting), waiting.until_s) == (None, 6.5 + OPERATOR_REACTION_S)
    assert waiting.reason == "the operator has not decided yet what to do with slots [2]"
    assert chosen(decide(job, 2, observed_at(6.5 + OPERATOR_REACTION_S, forming_since_s=6.5))) == [0, 1]


@pytest.mark.parametrize(
    ("job", "taken"),
    [
        pytest.param(shrunk().owned_by(s0="pod-0", s1="pod-1").spec(desired=2), [0, 1], id="it was dropped"),
        pytest.param(
            shrunk().node(2, ready=2).owned_by(s0="pod-0", s1="pod-1", s2="pod-9"), [0, 1], id="another pod owns it"
        ),
        pytest.param(shrunk().completion(1, 2), [0, 1], id="it had finished"),
        pytest.param(shrunk().node(2, ready=2), [0, 1, 2], id="it is there"),
        pytest.param(shrunk().members(1, 0, 1), [0, 1], id="it was no member"),
        pytest.param(view_builder(1, 3).members(1, 0, 1, 2).nodes(0, 1, ready=2), [0, 1], id="there is no operator"),
    ],
)
def test_no_wait_for_the_operator_is_needed(job: ViewBuilder, taken: list[int]) -> None:
    assert chosen(decide(job, 2, observed_at())) == taken


def test_once_the_replacement_is_expected_it_gets_its_last_call() -> None:
    job = shrunk().owned_by(s0="pod-0", s1="pod-1", s2="pod-9").expected(2)
    assert decide(job, 2, observed_at(0.2)).until_s == 5.0
    assert chosen(decide(job.node(2, incarnation="f" * 8, pod="pod-9"), 2, observed_at(0.3))) == [0, 1, 2]


@pytest.mark.parametrize(
    ("nodes", "taken"),
    [
        pytest.param((0, 1, 2), None, id="fewer than the least allowed number"),
        pytest.param((0, 1, 2, 3), [0, 1, 2, 3], id="an allowed number"),
        pytest.param((0, 1, 2, 3, 4), [0, 1, 2, 3], id="one is a spare"),
    ],
)
def test_a_round_has_an_allowed_number_of_nodes(nodes: tuple[int, ...], taken: list[int] | None) -> None:
    job = view_builder(1, 8, allowed_replicas=(4, 8)).nodes(*nodes, ready=2).members(1, 0)
    assert chosen(decide(job, 2, observed_at())) == taken


def test_a_job_that_wants_less_than_the_smallest_allowed_number_runs_with_that_one() -> None:
    job = view_builder(1, 8, desired=2, allowed_replicas=(4, 8)).nodes(0, 1, 2, 3, 4)
    assert chosen(decide(job, 1, observed_at())) == [0, 1, 2, 3]


def test_members_are_in_rank_order_and_not_in_join_order() -> None:
    assert chosen(decide(view_builder(3, 3).nodes(2, 0, 1), 1, observed_at())) == [0, 1, 2]


@pytest.mark.parametrize(
    ("job", "text"),
    [
        pytest.param(view_builder(3, 4).nodes(0), "2 more", id="without a map: a number"),
        pytest.param(
            view_builder(2, 4).owned_by(s0="job-0-a", s1="job-1-b").node(0, pod="job-0-a"),
            "job-1-b",
            id="with a map: names",
        ),
    ],
)
def test_the_missing_nodes_in_a_message(job: ViewBuilder, text: str) -> None:
    view = job.build()
    assert view.spec is not None
    assert membership.describe_missing(view, view.spec) == text

"""The requests that the next keeper gets: those of now, in their order, and nothing of an earlier round."""

import pytest

from elasticjob_agent.keep.keeper.messages import (
    BeginRequest,
    FetchRequest,
    JoinRequest,
    LingerRequest,
    OpenRequest,
    PeersRequest,
    Request,
    StartedRequest,
)
from elasticjob_agent.keep.keeper.persist_messages import DrainRequest
from elasticjob_agent.keep.replayed_requests import ReplayedRequests, TimedRequest
from elasticjob_api.kept_steps import History, KeptStep, Lineage

OLD, NEW = Lineage(3, "a"), Lineage(4, "b")
STEP = KeptStep(OLD, 5, 1)


def begun(lineage: Lineage) -> tuple[BeginRequest, PeersRequest]:
    """Return the two requests of a round."""
    return BeginRequest("run1", lineage), PeersRequest(lineage, ())


def replayed() -> ReplayedRequests:
    """Return the requests of a node whose workers run in the first round."""
    requests = ReplayedRequests(OpenRequest("/keep", "/jobs/a"))
    requests.joined = JoinRequest("run1", "0001aaaaaaaa", "5e", History().with_lineage(OLD), OLD)
    begin, peers = begun(OLD)
    requests.begin(begin)
    requests.peers, requests.has_started = peers, True
    return requests


def after_join(requests: ReplayedRequests, now_s: float = 0.0) -> list[Request]:
    """Return what the next keeper gets after it has joined."""
    return list(requests.in_order(now_s))[1:]


def test_a_running_round_is_begun_again() -> None:
    assert after_join(replayed()) == [*begun(OLD), StartedRequest()]


def test_a_join_that_is_repeated_drops_nothing() -> None:
    """The rounds that became active since are not in its history."""
    assert next(replayed().in_order(0.0)) == JoinRequest("run1", "0001aaaaaaaa", "5e")


def test_a_new_round_ends_what_belonged_to_the_last_one() -> None:
    requests = replayed()
    requests.fetch = TimedRequest(FetchRequest(STEP, {}), 10.0)
    begin, _ = begun(NEW)
    requests.begin(begin)
    assert after_join(requests) == [begin]


def test_a_sealed_round_is_not_begun_again_and_a_departure_goes_on() -> None:
    requests = replayed()
    requests.seal()
    requests.linger = TimedRequest(LingerRequest(within_s=30.0), 40.0)
    assert after_join(requests, 15.0) == [LingerRequest(within_s=25.0)]


def test_the_last_steps_of_a_sealed_node_are_written_by_the_next_keeper() -> None:
    requests = replayed()
    requests.drain = DrainRequest(STEP, (0,), 8)
    requests.seal()
    assert after_join(requests) == [DrainRequest(STEP, (0,), 8)]


def test_a_fetch_goes_on_for_the_time_that_is_left() -> None:
    requests = replayed()
    requests.fetch = TimedRequest(FetchRequest(STEP, {"0": ("a:1",)}, 30.0, 7), 40.0)
    assert after_join(requests, 35.0)[-1] == FetchRequest(STEP, {"0": ("a:1",)}, 5.0, 7)
    assert after_join(requests, 50.0)[-1] == FetchRequest(STEP, {"0": ("a:1",)}, 0.0, 7)


@pytest.mark.parametrize(
    ("wanted", "numbers", "then"), [(100, (40, 20), 40), (100, (100, 140), 100), (100, (), 100), (None, (40,), None)]
)
def test_the_next_keeper_looks_for_no_higher_step_than_the_last_one_has_found(
    wanted: int | None, numbers: tuple[int, ...], then: int | None
) -> None:
    requests = ReplayedRequests(OpenRequest("/keep", "/jobs/a", persisted_step=wanted))
    requests.note_listed(numbers)
    assert requests.opened.persisted_step == then

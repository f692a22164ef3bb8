"""The back-off after repeated failures without progress."""

from typing import Any

import pytest

from elasticjob_agent.rendezvous.protocol import restart_backoff
from elasticjob_agent.rendezvous.protocol.leader_plan import Decision, Wait, WriteState, plan
from elasticjob_api.records import SpecRecord
from elasticjob_api.rendezvous_state import Cause, RendezvousState, RoundPhase
from tests.unit.rendezvous.views import ViewBuilder, observed_at, view_builder


def spec(**changes: Any) -> SpecRecord:
    return SpecRecord(min=1, max=1, desired=1, **changes)


@pytest.mark.parametrize(
    ("strikes", "delay_s"),
    [(0, 0), (1, 0), (2, 1), (3, 2), (4, 4), (10, 256), (11, 300), (5000, 300)],
)
def test_the_delay_doubles_with_each_failure_in_a_row(strikes: int, delay_s: float) -> None:
    assert restart_backoff.restart_delay_s(spec(), strikes) == delay_s


def test_the_initial_and_the_longest_delay_are_those_of_the_spec() -> None:
    waits = [
        restart_backoff.restart_delay_s(spec(backoff_initial_s=0.5, backoff_max_s=1.5), strikes) for strikes in range(6)
    ]
    assert waits == [0, 0, 0.5, 1, 1.5, 1.5]


def test_an_initial_delay_of_0_is_no_delay() -> None:
    assert {restart_backoff.restart_delay_s(spec(backoff_initial_s=0), strikes) for strikes in range(50)} == {0}


@pytest.mark.parametrize(
    ("strikes", "text"),
    [
        (0, ""),
        (1, ""),
        (2, "; failure 2 in a row before any progress, the next attempt is 1 s after it"),
        (3, "; failure 3 in a row before any progress, the next attempt is 2 s after it"),
    ],
)
def test_the_delay_in_a_failure_message(strikes: int, text: str) -> None:
    assert restart_backoff.describe_delay(spec(), strikes) == text


def a_failed_round(strikes: int, *, startup: bool = True, **spec: Any) -> ViewBuilder:
    """Return a job whose round 1 has failed on two nodes, after so many failures in a row; all workers have stopped."""
    job = view_builder(2, 2, **spec).nodes(0, 1, ready=2).members(1, 0, 1).failure(1, 1, startup=startup)
    return job.forming(2, cause=Cause.WORKER_FAILED, startup_failures=strikes)


def decide(job: ViewBuilder, now_s: float = 0.0) -> Decision:
    return plan(job.build(), observed_at(now_s), "n")


def state(decision: Decision) -> RendezvousState:
    assert isinstance(decision, WriteState)
    return decision.state


def test_the_first_failure_before_any_progress_is_restarted_at_once() -> None:
    next_state = state(decide(a_failed_round(0)))
    assert (next_state.phase, next_state.startup_failures, next_state.restarts) == (RoundPhase.ACTIVE, 1, 1)


def test_the_second_gets_its_verdict_at_once_and_its_round_stays_open_for_the_delay() -> None:
    decided = state(decide(a_failed_round(1)))
    assert (decided.phase, decided.has_verdict, decided.startup_failures) == (RoundPhase.FORMING, True, 2)
    assert decided.message.endswith("failure 2 in a row before any progress, the next attempt is 1 s after it")


def waiting(**changes: Any) -> ViewBuilder:
    """Return the job after that verdict."""
    job = view_builder(2, 2).nodes(0, 1, ready=2).members(1, 0, 1)
    return job.forming(2, **{"cause": Cause.WORKER_FAILED, "startup_failures": 2, "has_verdict": True, **changes})


def test_the_round_closes_after_the_delay() -> None:
    decision = decide(waiting(), 0.5)
    assert decision == Wait(1.0, "back-off after 2 failures in a row before any progress")
    assert state(decide(waiting(), 1.0)).phase is RoundPhase.ACTIVE


def test_a_requested_restart_does_not_wait() -> None:
    assert state(decide(waiting().spec(restart_id="now"))).phase is RoundPhase.ACTIVE


def test_a_resumed_job_does_not_wait() -> None:
    assert state(decide(waiting(cause=Cause.RESUMED))).phase is RoundPhase.ACTIVE


@pytest.mark.parametrize(
    ("job", "strikes"),
    [
        pytest.param(a_failed_round(4, startup=False), 0, id="a failure after progress"),
        pytest.param(a_failed_round(4).failure(1, 0, startup=False), 0, id="a peer had made progress"),
        pytest.param(a_failed_round(4).lost(0), 0, id="a lost node"),
        pytest.param(
            a_failed_round(4).failure(1, 0, stopped_by_agent=True),
            5,
            id="a worker that the agent stopped does not count",
        ),
    ],
)
def test_failures_and_losses_that_end_the_row(job: ViewBuilder, strikes: int) -> None:
    assert state(decide(job)).startup_failures == strikes


def test_the_message_at_the_end_of_the_restarts_counts_failures_before_any_progress() -> None:
    ended = state(decide(a_failed_round(3, max_restarts=0)))
    assert ended.phase is RoundPhase.FAILED
    assert ended.message == (
        "rank 1 on pod-1 exited with code 1; maxRestarts 0 is used up: 4 failures in a row before any progress"
    )

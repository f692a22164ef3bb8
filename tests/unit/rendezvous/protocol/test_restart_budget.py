"""The failures that count: all of them, or with a window the recent ones, without a wall clock."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elasticjob_agent.rendezvous.protocol.restart_budget import (
    FailureAgeClock,
    RestartCounts,
    used_restarts,
    with_charged_failure,
)
from elasticjob_api.records import SpecRecord
from elasticjob_api.rendezvous_state import charged_ages_s


def spec(window_s: float) -> SpecRecord:
    return SpecRecord(min=1, max=1, desired=1, restart_window_s=window_s)


@pytest.mark.parametrize(
    ("window_s", "charges", "seen_s", "counted"),
    [
        pytest.param(0, "", 0, 7, id="without a window all failures of the job"),
        pytest.param(0, "4:0.0", 0, 7, id="with charges of an earlier window"),
        pytest.param(60, "", 0, 0, id="with a window those charged since it was set"),
        pytest.param(60, "4:0.0,30.0", 0, 2, id="all are recent"),
        pytest.param(60, "4:0.0,30.0", 29.9, 2, id="still"),
        pytest.param(60, "4:0.0,30.0", 30, 1, id="one is as old as the window"),
        pytest.param(60, "4:0.0,30.0", 3600, 0, id="all are old"),
        pytest.param(60, "nonsense", 0, 0, id="an unreadable field counts as empty"),
        pytest.param(60, "4:a,b", 0, 0, id="invalid numbers count as none"),
    ],
)
def test_failures_that_count(window_s: float, charges: str, seen_s: float, counted: int) -> None:
    assert (
        used_restarts(spec(window_s), RestartCounts(restarts=7, charged_failures=charges, charged_ages_s=seen_s))
        == counted
    )


def test_a_new_charge_has_age_0_and_older_ones_leave_the_window() -> None:
    counts = RestartCounts(round=9, charged_failures="4:0.0,30.0,50.0", charged_ages_s=10.25)
    assert with_charged_failure(spec(60), counts) == "9:0.0,10.2,40.2"


def test_without_a_window_no_ages_are_written() -> None:
    assert with_charged_failure(spec(0), RestartCounts(round=9, charged_failures="4:0.0")) == ""


def test_at_most_a_thousand_charges_are_written() -> None:
    counts = RestartCounts(round=1, charged_failures="0:" + ",".join(["1.0"] * 1000))
    assert len(charged_ages_s(with_charged_failure(spec(60), counts))) == 1000


def test_the_clock_starts_again_with_each_charge() -> None:
    clock = FailureAgeClock()
    assert [clock.record("1:0.0", 10), clock.record("1:0.0", 25), clock.record("2:0.0,15.0", 30)] == [0, 15, 0]


gaps = st.lists(st.floats(0.1, 100), min_size=1, max_size=30)


@given(gaps, st.floats(1, 200), st.floats(0, 1))
def test_a_failure_never_counts_for_too_short_a_time_with_any_leader(
    gaps: list[float], window_s: float, late: float
) -> None:
    """Each leader has seen the last charges for part of the time only, so it counts at least the true ones."""
    now, true, counts = 0.0, [0.0], RestartCounts(round=1, charged_failures="1:0.0")
    for round_, gap in enumerate(gaps, start=2):
        now += gap
        counts = RestartCounts(round=round_, charged_failures=counts.charged_failures, charged_ages_s=gap * late)
        rounded_s = 0.06 * len(true)  # the state has ages in tenths of a second, at each verdict
        assert used_restarts(spec(window_s), counts) >= sum(now - at < window_s - rounded_s for at in true)
        true.append(now)
        counts = RestartCounts(round=round_, charged_failures=with_charged_failure(spec(window_s), counts))


@given(gaps, st.floats(1, 200))
def test_one_leader_that_sees_every_state_counts_exactly(gaps: list[float], window_s: float) -> None:
    now, true, counts, clock = 0.0, [0.0], RestartCounts(round=1, charged_failures="1:0.0"), FailureAgeClock()
    clock.record(counts.charged_failures, 0.0)
    for round_, gap in enumerate(gaps, start=2):
        now += gap
        counts = RestartCounts(
            round=round_,
            charged_failures=counts.charged_failures,
            charged_ages_s=clock.record(counts.charged_failures, now),
        )
        rounding_s = 0.1 * round_  # ages are written in tenths
        counted = used_restarts(spec(window_s), counts)
        assert sum(now - at < window_s - rounding_s for at in true) <= counted
        assert counted <= sum(now - at < window_s + rounding_s for at in true)
        true.append(now)
        counts = RestartCounts(round=round_, charged_failures=with_charged_failure(spec(window_s), counts))
        clock.record(counts.charged_failures, now)

"""Starts of workers are counted once for each node of a round, and so is the time to the first output."""

from dataclasses import replace

import pytest

from elasticjob_api.records import StartReport, WorkerState
from elasticjob_api.rendezvous_state import Cause
from elasticjob_api.rendezvous_view import RendezvousView
from elasticjob_operator.model.worker_starts import StartSample, StartTracker
from testing.builders import active, member, report, state, view

CAUSE = Cause.WORKER_FAILED
COLD, WARM = StartReport(cold_reason="why"), StartReport(warm=2)
H = WorkerState.HEALTHY


def reported(*starts: StartReport | None, round_: int = 2, of: int = 2) -> RendezvousView:
    """Return a view of the active round with reports of round `of`; each node has two workers."""
    reports = {member(slot): replace(report(slot, H, H), round=of, start=start) for slot, start in enumerate(starts)}
    return view(0, 1, state=active(0, 1, round=round_, cause=CAUSE), reports=reports)


def test_each_node_is_counted_once() -> None:
    tracker = StartTracker()
    assert tracker.record(reported(WARM), in_status=1) == [StartSample(CAUSE, is_warm=True, warm=2)]
    assert tracker.record(reported(WARM, COLD), in_status=1) == [StartSample(CAUSE, is_warm=False, cold=2)]
    assert tracker.record(reported(WARM, COLD), in_status=2) == []


def test_the_first_output_of_a_node_is_returned_once_with_its_start_or_later() -> None:
    tracker = StartTracker()
    tracker.record(reported(COLD), in_status=1)
    later = replace(COLD, first_output_s=5.1)
    assert tracker.record(reported(later), in_status=1) == [StartSample(CAUSE, is_warm=False, first_output_s=5.1)]
    assert tracker.record(reported(later), in_status=1) == []
    at_once = replace(WARM, first_output_s=0.05)
    assert tracker.record(reported(later, at_once), in_status=1) == [
        StartSample(CAUSE, is_warm=True, warm=2, first_output_s=0.05)
    ]


def test_the_next_round_is_counted_anew() -> None:
    tracker = StartTracker()
    tracker.record(reported(WARM), in_status=1)
    assert tracker.record(reported(WARM, round_=3, of=3), in_status=2) == [StartSample(CAUSE, is_warm=True, warm=2)]


def test_a_node_with_a_warm_and_a_cold_worker_is_cold() -> None:
    sample = StartSample(CAUSE, is_warm=False, warm=1, cold=1)
    assert StartTracker().record(reported(replace(COLD, warm=1)), in_status=1) == [sample]


def test_reports_without_a_start_or_of_another_round_count_nothing() -> None:
    assert StartTracker().record(reported(None, None), in_status=1) == []
    assert StartTracker().record(reported(WARM, of=1), in_status=1) == []
    assert StartTracker().record(view(0, state=state(round=2)), in_status=1) == []


def test_a_round_that_the_status_has_at_the_first_call_was_counted_by_the_previous_process() -> None:
    tracker = StartTracker()
    assert tracker.record(reported(WARM), in_status=2) == []
    assert tracker.record(reported(replace(WARM, first_output_s=0.1)), in_status=2) == []
    assert tracker.record(reported(WARM, round_=3, of=3), in_status=2) != []


@pytest.mark.parametrize("first_s", [-1.0, 1e9])
@pytest.mark.parametrize("warm", [-5, 1 << 30])
def test_values_that_no_agent_reports_are_limited(warm: int, first_s: float) -> None:
    [sample] = StartTracker().record(reported(StartReport(warm=warm, first_output_s=first_s)), in_status=1)
    assert (sample.warm + sample.cold, min(sample.warm, sample.cold), sample.first_output_s) == (2, 0, None)

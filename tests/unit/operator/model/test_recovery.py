"""When a round is measured, and the durations of its steps over all its members."""

import math
from dataclasses import replace

import pytest

from elasticjob_api.records import RecoveryTimings, WorkerState
from elasticjob_api.rendezvous_state import Cause
from elasticjob_api.rendezvous_view import RendezvousView
from elasticjob_operator.model.recovery import RecoverySample, RecoveryTracker, step_durations
from testing.builders import active, member, report, state, view

FORMING = view(0, 1, state=state(round=2, cause=Cause.WORKER_FAILED))
ACTIVE = active(0, 1, round=2, cause=Cause.WORKER_FAILED)
QUICK, SLOW = (
    RecoveryTimings(stop_s=0.1, agree_s=0.4, start_s=0.01),
    RecoveryTimings(detect_s=0.02, stop_s=0.4, agree_s=0.1),
)


def reported(*timings: RecoveryTimings | None, round_: int = 2) -> RendezvousView:
    reports = {
        member(slot): replace(report(slot, WorkerState.HEALTHY), round=round_, recovery=recovery)
        for slot, recovery in enumerate(timings)
    }
    return view(0, 1, state=ACTIVE, reports=reports)


def forming_tracker() -> RecoveryTracker:
    recovery = RecoveryTracker()
    recovery.record(FORMING, in_status=1)
    return recovery


def test_a_round_that_becomes_active_is_returned_once() -> None:
    recovery = forming_tracker()
    assert recovery.record(reported(), in_status=1) == (ACTIVE, None)
    assert recovery.record(reported(), in_status=1) == (None, None)


def test_a_round_is_measured_once_when_all_its_members_have_reported() -> None:
    recovery = forming_tracker()
    assert recovery.record(reported(SLOW), in_status=1)[1] is None
    assert recovery.record(reported(SLOW, None), in_status=1)[1] is None
    whole = RecoverySample(2, Cause.WORKER_FAILED, {"detect": 0.02, "stop": 0.4, "agree": 0.1, "start": 0.01})
    assert recovery.record(reported(SLOW, QUICK), in_status=1)[1] == whole
    assert recovery.record(reported(SLOW, QUICK), in_status=1)[1] is None
    assert abs(whole.total_s - 0.53) < 1e-9


def test_reports_of_the_previous_round_measure_nothing() -> None:
    assert forming_tracker().record(reported(SLOW, QUICK, round_=1), in_status=1) == (ACTIVE, None)


def test_a_round_that_the_status_has_at_the_first_call_is_not_measured() -> None:
    recovery = RecoveryTracker()
    assert recovery.record(reported(SLOW, QUICK), in_status=2) == (None, None)
    assert recovery.record(reported(SLOW, QUICK), in_status=2) == (None, None)


def test_a_round_that_became_active_before_the_first_call_is_measured_unless_the_status_has_it() -> None:
    new_round, measured = RecoveryTracker().record(reported(SLOW, QUICK), in_status=1)
    assert new_round == ACTIVE
    assert measured is not None
    assert measured.round == 2


def test_a_step_without_a_measurement_has_no_duration() -> None:
    assert step_durations([RecoveryTimings(start_s=0.5), RecoveryTimings()]) == {"start": 0.5}


def test_the_slowest_member_has_restored_last() -> None:
    timings = [RecoveryTimings(restore_s=0.5, start_s=0.1), RecoveryTimings(restore_s=0.2)]
    assert step_durations(timings) == {"restore": 0.5, "start": 0.1}


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf, -1.0, 1e9])
def test_an_implausible_duration_is_left_out(wrong: float) -> None:
    assert step_durations([RecoveryTimings(stop_s=wrong, start_s=0.5), RecoveryTimings(stop_s=0.1)]) == {
        "stop": 0.1,
        "start": 0.5,
    }

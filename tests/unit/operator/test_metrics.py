"""What Prometheus reads: counters that follow the status, and gauges that are counted anew."""

from dataclasses import replace
from typing import Any

import pytest

from elasticjob_api.status import JobStatus
from elasticjob_api.world import Cause, State
from elasticjob_operator.cluster.protocol import Resource
from elasticjob_operator.jobkey import JobKey
from elasticjob_operator.metrics import PrometheusMeter
from elasticjob_operator.rounds import Closed, Rounds
from tests.unit.operator.builders import NOW, active, condition, world

KEY = JobKey("team", "digits", "u")
TAKEN_UP = JobStatus(desired_replicas=2, conditions=(condition("Accepted"),))


def after(*steps: tuple[JobStatus, JobStatus], age_s: float | None = 3.0) -> str:
    meter = PrometheusMeter()
    for before, now in steps:
        meter.status_written(KEY, before, now, age_s=age_s)
    return meter.text().decode()


def changed(**fields: Any) -> tuple[JobStatus, JobStatus]:
    return TAKEN_UP, replace(TAKEN_UP, **fields)


@pytest.mark.parametrize(
    ("step", "line"),
    [
        ((JobStatus(), TAKEN_UP), 'elasticjob_created_total{namespace="team"} 1.0'),
        (changed(restarts=2), 'elasticjob_restarts_total{namespace="team"} 2.0'),
        (changed(node_losses=1), 'elasticjob_node_losses_total{namespace="team"} 1.0'),
        (changed(pod_replacements=3), 'elasticjob_pod_replacements_total{namespace="team"} 3.0'),
        (changed(desired_replicas=4), 'elasticjob_resizes_total{namespace="team"} 1.0'),
        (changed(conditions=(condition("Complete"),)), 'elasticjob_succeeded_total{namespace="team"} 1.0'),
        (
            changed(conditions=(condition("Failed"),), reason="DeadlineExceeded"),
            'elasticjob_failed_total{namespace="team",reason="DeadlineExceeded"} 1.0',
        ),
        (changed(last_rendezvous_time=NOW), 'elasticjob_time_to_running_seconds_bucket{le="5.0"} 1.0'),
    ],
)
def test_a_change_of_the_status_is_counted(step: tuple[JobStatus, JobStatus], line: str) -> None:
    assert line in after(step).splitlines()


def test_what_does_not_change_is_not_counted_and_no_label_names_a_job() -> None:
    said = after((TAKEN_UP, replace(TAKEN_UP, ready_replicas=1)))
    assert "namespace=" not in said
    assert "digits" not in after((JobStatus(), TAKEN_UP), changed(restarts=1))


def test_jobs_are_counted_by_phase_when_somebody_asks() -> None:
    meter, phases = PrometheusMeter(), {("team", "Running"): 2, ("team", ""): 1}
    meter.show(lambda: phases, lambda: 7)
    assert 'elasticjob_phase{namespace="team",phase="Running"} 2.0' in meter.text().decode()
    assert 'elasticjob_phase{namespace="team",phase="Pending"} 1.0' in meter.text().decode()
    assert "elasticjob_queue_depth 7.0" in meter.text().decode()
    phases.clear()
    assert "elasticjob_phase{" not in meter.text().decode()


def test_the_age_of_a_watch_begins_anew_when_it_is_heard_of() -> None:
    now_s = 10.0
    meter = PrometheusMeter(clock=lambda: now_s)
    meter.show(dict, lambda: 0)
    meter.heard(Resource.POD)
    now_s = 12.0
    assert 'elasticjob_watch_age_seconds{resource="pods"} 2.0' in meter.text().decode()


def test_reports_turns_and_rounds_are_measured() -> None:
    meter = PrometheusMeter()
    meter.report(readable=True)
    meter.report(readable=False)
    meter.turned(took_s=0.01, failed=True)
    meter.round_closed(after_s=0.3, resize=False)
    lines = meter.text().decode().splitlines()
    assert 'elasticjob_agent_reports_total{code="unreadable"} 1.0' in lines
    assert "elasticjob_reconcile_errors_total 1.0" in lines
    assert 'elasticjob_recovery_seconds_bucket{le="0.5"} 1.0' in lines


FORMING = world(round=2, cause=Cause.WORKER_FAILED)
ACTIVE = active(0, round=2, cause=Cause.WORKER_FAILED)


def test_a_round_takes_from_its_opening_to_its_closing() -> None:
    rounds = Rounds()
    assert [rounds.note(FORMING, 10.0), rounds.note(FORMING, 11.0)] == [None, None]
    assert rounds.note(ACTIVE, 12.5) == Closed(2.5, resize=False)
    assert rounds.note(ACTIVE, 13.0) is None


@pytest.mark.parametrize("cause", [Cause.FIRST, Cause.RESUMED])
def test_the_first_round_of_a_life_is_no_recovery(cause: Cause) -> None:
    rounds = Rounds()
    rounds.note(world(round=1, cause=cause), 10.0)
    assert rounds.note(active(0, cause=cause), 11.0) is None


def test_a_round_that_was_never_seen_forming_is_not_measured() -> None:
    assert Rounds().note(ACTIVE, 1.0) is None
    rounds = Rounds()
    rounds.note(FORMING, 1.0)
    assert rounds.note(replace(ACTIVE, round=3), 2.0) is None
    assert rounds.note(None, 3.0) is None


def test_a_round_that_ends_the_job_is_no_recovery() -> None:
    rounds = Rounds()
    rounds.note(FORMING, 1.0)
    assert rounds.note(world(State.FAILED, round=2, cause=Cause.MAX_RESTARTS), 2.0) is None

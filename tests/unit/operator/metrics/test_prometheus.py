"""Metrics for Prometheus: counters that follow the status, and gauges that are computed at each scrape."""

from dataclasses import replace
from typing import Any

import pytest

from elasticjob_api.rendezvous_state import Cause
from elasticjob_api.status import JobStatus, KeepStatus
from elasticjob_operator.metrics.job_health import (
    AgentHealth,
    JobHealth,
    KeepHealth,
    KeepSample,
    PersistHealth,
    TimeBucket,
)
from elasticjob_operator.metrics.prometheus import PrometheusRecorder
from elasticjob_operator.model.cluster_interface import Resource
from elasticjob_operator.model.job_key import JobKey
from elasticjob_operator.model.recovery import RecoverySample
from elasticjob_operator.model.worker_starts import StartSample
from testing.builders import NOW, condition

KEY = JobKey("team", "digits", "u")
TAKEN_UP = JobStatus(desired_replicas=2, conditions=(condition("Accepted"),))


def after(*steps: tuple[JobStatus, JobStatus], age_s: float | None = 3.0) -> str:
    meter = PrometheusRecorder()
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
        (changed(keep=KeepStatus(skipped=4)), 'elasticjob_keep_skipped_total{namespace="team"} 4.0'),
        (changed(keep=KeepStatus(step=0, round=1)), 'elasticjob_keep_commits_total{namespace="team"} 1.0'),
        (
            changed(keep=KeepStatus(step=7, round=1, copy_milliseconds=150)),
            'elasticjob_keep_copy_seconds_bucket{le="0.2"} 1.0',
        ),
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


def test_a_committed_step_is_counted_once() -> None:
    kept = replace(TAKEN_UP, keep=KeepStatus(step=7, round=1, copy_milliseconds=150))
    later = replace(kept, keep=KeepStatus(step=5, round=2))
    lines = after((kept, replace(kept, restarts=1)), (kept, later), (later, later), (later, TAKEN_UP)).splitlines()
    assert 'elasticjob_keep_commits_total{namespace="team"} 1.0' in lines
    assert "elasticjob_keep_copy_seconds_count 0.0" in lines


def test_unchanged_fields_are_not_counted_and_no_label_names_a_job() -> None:
    text = after((TAKEN_UP, replace(TAKEN_UP, ready_replicas=1)))
    assert "namespace=" not in text
    assert "digits" not in after((JobStatus(), TAKEN_UP), changed(restarts=1))


@pytest.mark.parametrize("leads", [True, False])
def test_a_gauge_shows_whether_this_replica_leads(*, leads: bool) -> None:
    meter = PrometheusRecorder()
    meter.serve_state(dict, lambda: 0, lambda: leads)
    assert f"elasticjob_leader {float(leads)}" in meter.text().decode()


def test_jobs_are_counted_by_phase_at_each_scrape() -> None:
    meter, phases = PrometheusRecorder(), {("team", "Running"): 2, ("team", ""): 1}
    meter.serve_state(lambda: phases, lambda: 7)
    assert 'elasticjob_phase{namespace="team",phase="Running"} 2.0' in meter.text().decode()
    assert 'elasticjob_phase{namespace="team",phase="Pending"} 1.0' in meter.text().decode()
    assert "elasticjob_queue_depth 7.0" in meter.text().decode()
    phases.clear()
    assert "elasticjob_phase{" not in meter.text().decode()


def test_unmanaged_jobs_are_counted_by_reason_at_each_scrape() -> None:
    meter, unmanaged = PrometheusRecorder(), {("team", "OwnedByAnother"): 2}
    meter.serve_state(dict, lambda: 0, unmanaged=lambda: unmanaged)
    assert 'elasticjob_left_alone{namespace="team",reason="OwnedByAnother"} 2.0' in meter.text().decode()
    unmanaged.clear()
    assert "elasticjob_left_alone{" not in meter.text().decode()


def test_an_event_resets_the_age_of_a_watch() -> None:
    now_s = 10.0
    meter = PrometheusRecorder(clock=lambda: now_s)
    meter.serve_state(dict, lambda: 0)
    meter.watch_event(Resource.POD)
    now_s = 12.0
    assert 'elasticjob_watch_age_seconds{resource="pods"} 2.0' in meter.text().decode()


def test_reports_and_reconciles_are_measured() -> None:
    meter = PrometheusRecorder()
    meter.report(readable=True)
    meter.report(readable=False)
    meter.reconciled(took_s=0.01, failed=True)
    meter.etcd_auth_corrected()
    meter.etcd_leases_revoked(3)
    lines = meter.text().decode().splitlines()
    assert 'elasticjob_agent_reports_total{code="unreadable"} 1.0' in lines
    assert "elasticjob_reconcile_errors_total 1.0" in lines
    assert "elasticjob_etcd_auth_corrections_total 1.0" in lines
    assert "elasticjob_etcd_leases_revoked_total 3.0" in lines


STEPS = {"detect": 0.004, "stop": 0.2, "agree": 0.01, "start": 0.05}


def test_starts_are_counted_by_cause_and_kind_and_first_output_is_observed_by_kind() -> None:
    meter = PrometheusRecorder()
    cause = Cause.WORKER_FAILED
    meter.workers_started(KEY, StartSample(cause, is_warm=True, warm=8, first_output_s=0.04))
    meter.workers_started(KEY, StartSample(cause, is_warm=False, warm=1, cold=7))
    meter.workers_started(KEY, StartSample(cause, is_warm=False, first_output_s=4.0))
    lines = meter.text().decode().splitlines()
    labels = 'cause="WorkerFailed",namespace="team",start='
    assert f'elasticjob_worker_starts_total{{{labels}"warm"}} 9.0' in lines
    assert f'elasticjob_worker_starts_total{{{labels}"cold"}} 7.0' in lines
    assert 'elasticjob_first_output_seconds_bucket{le="0.05",start="warm"} 1.0' in lines
    assert 'elasticjob_first_output_seconds_count{start="cold"} 1.0' in lines


def measured(cause: Cause, **steps: float) -> list[str]:
    meter = PrometheusRecorder()
    meter.round_active(KEY, cause)
    meter.recovered(RecoverySample(2, cause, {**STEPS, **steps}))
    return meter.text().decode().splitlines()


def test_a_recovery_is_measured_by_cause_and_step() -> None:
    lines = measured(Cause.WORKER_FAILED)
    assert 'elasticjob_recovery_step_seconds_bucket{cause="WorkerFailed",le="0.2",step="stop"} 1.0' in lines
    assert 'elasticjob_recovery_step_seconds_bucket{cause="WorkerFailed",le="0.1",step="stop"} 0.0' in lines
    assert 'elasticjob_recovery_seconds_bucket{cause="WorkerFailed",le="0.5"} 1.0' in lines
    assert 'elasticjob_rounds_total{cause="WorkerFailed",namespace="team"} 1.0' in lines


def test_a_change_of_size_is_a_resize_and_no_recovery() -> None:
    lines = measured(Cause.NODE_JOINED)
    assert "elasticjob_resize_seconds_count 1.0" in lines
    assert not [line for line in lines if line.startswith("elasticjob_recovery_seconds_count")]


def test_the_first_round_of_a_job_is_counted_and_is_no_recovery() -> None:
    lines = measured(Cause.FIRST)
    assert 'elasticjob_rounds_total{cause="First",namespace="team"} 1.0' in lines
    assert not [line for line in lines if line.startswith("elasticjob_recovery_step_seconds_count")]


@pytest.mark.parametrize("cause", [Cause.FIRST, Cause.WORKER_FAILED])
def test_the_time_to_restore_is_measured_in_the_first_round_too(cause: Cause) -> None:
    assert 'elasticjob_keep_restore_seconds_bucket{le="0.5"} 1.0' in measured(cause, restore=0.3)
    assert "elasticjob_keep_restore_seconds_count 0.0" in measured(cause)


def test_time_is_exported_by_state_and_agents_by_health() -> None:
    now_s = 0.0
    meter = PrometheusRecorder(clock=lambda: now_s)
    meter.serve_state(dict, lambda: 0)
    meter.job_health(KEY, JobHealth(TimeBucket.FORMING, {AgentHealth.IDLE: 2}))
    now_s = 3.0
    meter.job_health(KEY, JobHealth(TimeBucket.ACTIVE, {AgentHealth.WORKING: 2}))
    now_s = 10.0
    lines = meter.text().decode().splitlines()
    assert 'elasticjob_job_seconds_total{namespace="team",state="forming"} 3.0' in lines
    assert 'elasticjob_job_seconds_total{namespace="team",state="active"} 7.0' in lines
    assert [line for line in lines if line.startswith("elasticjob_agents{")] == [
        'elasticjob_agents{health="working",namespace="team"} 2.0'
    ]


def gauges(*healths: JobHealth) -> list[str]:
    """Return the gauges of kept steps for these jobs of one namespace."""
    meter = PrometheusRecorder(wall=lambda: 1000.0)
    meter.serve_state(dict, lambda: 0)
    for number, health in enumerate(healths):
        meter.job_health(JobKey("team", f"j{number}", f"u{number}"), health)
    families = ("jobs", "held_bytes", "copies", "committed_age", "persist")
    starts = tuple(f"elasticjob_keep_{family}" for family in families)
    return [line for line in meter.text().decode().splitlines() if line.startswith(starts)]


def test_jobs_that_keep_steps_are_counted_by_the_health_of_these_with_their_bytes() -> None:
    healths = (KeepHealth.COMMITTED, KeepHealth.COMMITTED, KeepHealth.DEGRADED, None)
    assert gauges(*(JobHealth(TimeBucket.ACTIVE, {}, health, KeepSample(512)) for health in healths)) == [
        'elasticjob_keep_jobs{keep="committed",namespace="team"} 2.0',
        'elasticjob_keep_jobs{keep="degraded",namespace="team"} 1.0',
        'elasticjob_keep_held_bytes{namespace="team"} 1536.0',
    ]


def test_the_fewest_copies_and_the_oldest_commit_of_a_namespace_are_shown() -> None:
    numbers = (KeepSample(0, 2, 990.0), KeepSample(0, 1, 700.0), KeepSample(), KeepSample(0, 0, 2000.0))
    found = gauges(*(JobHealth(TimeBucket.ACTIVE, {}, KeepHealth.COMMITTED, each) for each in numbers))
    assert found[2:] == [
        'elasticjob_keep_copies{namespace="team"} 0.0',
        'elasticjob_keep_committed_age_seconds{namespace="team"} 300.0',
    ]
    ahead = JobHealth(TimeBucket.ACTIVE, {}, KeepHealth.COMMITTED, numbers[3])
    assert 'elasticjob_keep_committed_age_seconds{namespace="team"} 0.0' in gauges(ahead)


def test_jobs_that_persist_steps_are_counted_by_the_health_of_these() -> None:
    healths = (PersistHealth.PERSISTED, PersistHealth.FAILING, PersistHealth.FAILING, PersistHealth.NONE, None)
    jobs = [JobHealth(TimeBucket.ACTIVE, {}, KeepHealth.COMMITTED, persist=health) for health in healths]
    assert [line for line in gauges(*jobs) if "persist" in line] == [
        'elasticjob_keep_persist_jobs{namespace="team",persist="failing"} 2.0',
        'elasticjob_keep_persist_jobs{namespace="team",persist="none"} 1.0',
        'elasticjob_keep_persist_jobs{namespace="team",persist="persisted"} 1.0',
    ]


def test_jobs_whose_persisted_step_is_late_are_counted_with_its_age() -> None:
    samples = (KeepSample(persisted_at_s=400.0, late_at_s=900.0), KeepSample(persisted_at_s=700.0, late_at_s=1600.0))
    jobs = [JobHealth(TimeBucket.ACTIVE, {}, KeepHealth.COMMITTED, each, PersistHealth.PERSISTED) for each in samples]
    assert [line for line in gauges(*jobs) if "persist" in line] == [
        'elasticjob_keep_persist_jobs{namespace="team",persist="late"} 1.0',
        'elasticjob_keep_persist_jobs{namespace="team",persist="persisted"} 1.0',
        'elasticjob_keep_persisted_age_seconds{namespace="team"} 600.0',
    ]


@pytest.mark.parametrize("name", ["restarts", "node_losses", "pod_replacements"])
def test_a_counter_of_faults_begins_at_zero_with_the_first_job_of_its_namespace(name: str) -> None:
    """Prometheus knows no increase of a counter that it has never scraped, so alerts would miss the first fault."""
    meter = PrometheusRecorder()
    assert f'elasticjob_{name}_total{{namespace="team"}}' not in meter.text().decode()
    meter.job_health(KEY, JobHealth(TimeBucket.WAITING, {}))
    assert f'elasticjob_{name}_total{{namespace="team"}} 0.0' in meter.text().decode()

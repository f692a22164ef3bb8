"""Metrics for Prometheus: counters that follow the status, and gauges that are computed at each scrape."""

from dataclasses import replace
from typing import Any

import pytest

from elasticjob_api.rendezvous_state import Cause
from elasticjob_api.status import JobStatus, KeepStatus
from elasticjob_operator.metrics.job_health import AgentHealth, JobHealth, KeepHealth, TimeBucket
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


def measured(cause: Cause) -> list[str]:
    meter = PrometheusRecorder()
    meter.round_active(KEY, cause)
    meter.recovered(RecoverySample(2, cause, STEPS))
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


def test_jobs_that_keep_steps_are_counted_by_the_health_of_these_with_their_bytes() -> None:
    meter = PrometheusRecorder()
    meter.serve_state(dict, lambda: 0)
    healths = (KeepHealth.COMMITTED, KeepHealth.COMMITTED, KeepHealth.DEGRADED, None)
    for name, health in zip("abcd", healths, strict=True):
        meter.job_health(JobKey("team", name, name), JobHealth(TimeBucket.ACTIVE, {}, health, held_bytes=512))
    lines = meter.text().decode().splitlines()
    assert [line for line in lines if line.startswith("elasticjob_keep_")] == [
        'elasticjob_keep_jobs{keep="committed",namespace="team"} 2.0',
        'elasticjob_keep_jobs{keep="degraded",namespace="team"} 1.0',
        'elasticjob_keep_held_bytes{namespace="team"} 1536.0',
    ]

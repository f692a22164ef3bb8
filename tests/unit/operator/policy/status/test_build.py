"""The whole status: rebuilt fields, counters that never decrease, kept fields, and changes of an ended job."""

from dataclasses import replace
from typing import Any

import pytest

from elasticjob_api.constants import ConditionType, Phase
from elasticjob_api.records import KeepReport
from elasticjob_api.rendezvous_state import Cause, RoundPhase
from elasticjob_api.rendezvous_view import RendezvousView
from elasticjob_api.status import JobStatus, KeepStatus, WorkerStates
from elasticjob_operator.model.job_state import JobState
from elasticjob_operator.policy.status.build import is_finished, next_status, rejected_status
from elasticjob_operator.policy.status.conditions import is_true
from testing.builders import (
    NOW,
    NOW_S,
    active,
    ago,
    condition,
    job,
    member,
    membership,
    node,
    pod,
    record,
    running,
    samples,
    seen,
    state,
    view,
)


def next_status_of(at: RendezvousView, *pods: Any, before: JobStatus | None = None, **spec: Any) -> JobStatus:
    return next_status(seen(job(status=before, **spec), at, *pods))


# Counts.


def test_pods_are_counted_as_live_and_as_terminating() -> None:
    after = next_status_of(
        view(), pod(0), pod(1, phase="Pending"), pod(2, terminating=True), pod(3, phase="Failed"), replicas=2
    )
    assert (after.replicas, after.terminating_replicas, after.desired_replicas) == (2, 1, 2)


def test_the_selector_is_by_uid_so_that_a_predecessors_pods_are_not_scaled() -> None:
    assert next_status_of(view()).selector == "elasticjob.io/job-uid=job-uid"


def test_ready_replicas_are_the_nodes_of_the_active_round_not_the_pods() -> None:
    assert next_status_of(running(0, 1), pod(0), pod(1), pod(2), replicas=3).ready_replicas == 2
    assert next_status_of(view(0, 1, state=state()), pod(0), pod(1), replicas=2).ready_replicas == 0


def test_round_size_and_master_come_from_the_rendezvous_state() -> None:
    at = view(0, 1, state=active(1, 0, round=4, nprocs="2x1,3x1"))
    after = next_status_of(at, replicas=2)
    assert (after.rendezvous_round, after.world_size, after.master_pod) == (4, 5, "j-1-a")


COUNTED = JobStatus(rendezvous_round=9, restarts=3, node_losses=2, pod_replacements=4, master_pod="j-0-a")


def test_counters_come_from_rendezvous_state_and_spec_record() -> None:
    at = view(0, spec=record(0, replacements=5), state=active(0, round=10, restarts=4, node_losses=6))
    after = next_status_of(at, before=COUNTED)
    assert (after.rendezvous_round, after.restarts, after.node_losses, after.pod_replacements) == (10, 4, 6, 5)


@pytest.mark.parametrize("at", [RendezvousView(), view(0, state=state())])
def test_counters_never_decrease_even_after_a_wipe_of_etcd(at: RendezvousView) -> None:
    after = next_status_of(at, before=COUNTED)
    assert (after.rendezvous_round, after.restarts, after.node_losses, after.pod_replacements) == (9, 3, 2, 4)


def test_the_master_pod_is_kept_while_a_round_forms_because_its_log_still_exists() -> None:
    assert next_status_of(view(0, state=state()), before=COUNTED).master_pod == "j-0-a"


def test_workers_are_counted_over_all_nodes() -> None:
    after = next_status_of(view(0, 1, nodes={}), replicas=2, nproc_per_node=4)
    assert after.worker_states == WorkerStates(pending=8)


def test_a_job_that_fails_while_a_round_forms_has_the_last_active_round() -> None:
    before = next_status_of(running(0), pod(0))
    failed = next_status_of(
        view(spec=record(), state=state(RoundPhase.FAILED, round=2), membership=membership(0)), before=before
    )
    assert (before.rendezvous_round, failed.rendezvous_round) == (1, 1)


@pytest.mark.parametrize("before", [None, COUNTED])
def test_a_job_that_fails_at_once_has_the_size_of_its_last_round(before: JobStatus | None) -> None:
    at = view(spec=record(), state=state(RoundPhase.FAILED, round=2), membership=membership(0, 1))
    assert next_status_of(at, before=before, nproc_per_node=2).world_size == 4


@pytest.mark.parametrize(("window_s", "charges", "count"), [(0.0, "", 5), (60.0, "4:0.0,12.5", 2), (60.0, "", 0)])
def test_only_restarts_within_the_window_count(window_s: float, charges: str, count: int) -> None:
    at = running(0, state=active(0, restarts=5, charged_failures=charges))
    assert next_status_of(at, pod(0), restart_window_s=window_s).restarts_count_towards_max == count


def test_a_change_of_the_wanted_size_sets_last_scale_time() -> None:
    before = next_status_of(running(0), pod(0))
    assert before.last_scale_time == ""
    assert next_status_of(running(0), pod(0), before=before, replicas=2).last_scale_time == NOW


def test_the_last_written_status_is_newer_than_the_cached_one() -> None:
    job_state = JobState(status=JobStatus(restarts=2))
    assert next_status(seen(job(status=JobStatus(restarts=1)), view(0), job_state=job_state)).restarts == 2


# Times.


def test_the_start_time_is_that_of_the_first_reconcile_and_is_kept() -> None:
    assert next_status_of(RendezvousView()).start_time == NOW
    assert next_status_of(RendezvousView(), before=JobStatus(start_time=ago(60))).start_time == ago(60)


def test_a_suspension_clears_the_start_time_and_a_resume_sets_it_again() -> None:
    stopped = next_status_of(running(0), before=JobStatus(start_time=ago(60)), suspend=True)
    assert stopped.start_time == ""
    assert next_status_of(view(0), before=stopped).start_time == NOW


def test_completion_time_is_set_once() -> None:
    ended = next_status_of(view(state=state(RoundPhase.SUCCEEDED)), before=JobStatus(start_time=ago(60)))
    assert (ended.start_time, ended.completion_time) == (ago(60), NOW)
    assert ended.phase is Phase.SUCCEEDED


def test_a_running_job_has_no_completion_time() -> None:
    assert next_status_of(running(0)).completion_time == ""


def test_last_rendezvous_time_is_the_first_observation_of_the_active_round() -> None:
    first = next_status_of(running(0))
    assert first.last_rendezvous_time == NOW
    later = seen(job(status=first), running(0), now_s=NOW_S + 60)
    assert next_status(later).last_rendezvous_time == NOW


def test_a_new_round_sets_a_new_rendezvous_time() -> None:
    before = replace(next_status_of(running(0)), last_rendezvous_time=ago(60))
    assert next_status_of(view(0, state=active(0, round=2)), before=before).last_rendezvous_time == NOW


def test_a_round_that_was_observed_forming_has_the_time_at_which_it_becomes_active() -> None:
    before = JobStatus(rendezvous_round=2, ready_replicas=0, last_rendezvous_time=ago(60))
    assert next_status_of(view(0, state=active(0, round=2)), before=before).last_rendezvous_time == NOW


# The end of a job.


ENDED = JobStatus(
    phase=Phase.FAILED,
    conditions=(condition("Failed", reason="DeadlineExceeded"),),
    restarts=1,
    start_time=ago(90),
    completion_time=ago(60),
)


@pytest.mark.parametrize(
    "at", [RendezvousView(), running(0), view(state=state(RoundPhase.SUCCEEDED)), view(spec=None, spec_revision=3)]
)
def test_an_ended_job_stays_ended_whatever_is_observed(at: RendezvousView) -> None:
    after = next_status_of(at, before=ENDED)
    assert (after.phase, after.conditions, after.restarts) == (Phase.FAILED, ENDED.conditions, 1)
    assert (after.start_time, after.completion_time) == (ago(90), ago(60))


def test_an_ended_jobs_pods_and_generation_are_still_updated() -> None:
    after = next_status_of(RendezvousView(), pod(0), before=ENDED)
    assert (after.replicas, after.observed_generation) == (1, 7)


def test_an_ended_jobs_last_step_on_disk_is_still_taken_in() -> None:
    kept = samples(keep=KeepReport(persisted_step=20, persisted_ns=1_767_225_601 * 10**9))
    at = view(state=state(RoundPhase.SUCCEEDED), membership=membership(0), samples={member(0): kept})
    after = next_status_of(at, before=replace(ENDED, keep=KeepStatus(step=20, round=1)))
    assert after.keep == KeepStatus(step=20, round=1, persisted_step=20, persisted_time="2026-01-01T00:00:01Z")


@pytest.mark.parametrize(("name", "ended"), [("Complete", True), ("Failed", True), ("Suspended", False)])
def test_complete_and_failed_are_ends(name: str, *, ended: bool) -> None:
    assert is_finished(JobStatus(conditions=(condition(name),))) is ended
    assert not is_finished(JobStatus(conditions=(condition(name, "False"),)))


def test_a_failed_rendezvous_state_ends_the_job_with_its_reason() -> None:
    after = next_status_of(view(state=state(RoundPhase.FAILED, cause=Cause.MAX_RESTARTS, message="4 of 3", restarts=4)))
    assert (after.phase, after.restarts, after.completion_time) == (Phase.FAILED, 4, NOW)


def test_the_size_of_the_last_round_is_kept_after_its_end() -> None:
    before = next_status_of(running(0, 1), replicas=2)
    after = next_status_of(view(state=state(RoundPhase.SUCCEEDED)), before=before, replicas=2)
    assert after.world_size == before.world_size == 4


# Outages.


@pytest.mark.parametrize(
    ("at", "etcd_trouble"), [(RendezvousView(), "no answer from etcd"), (view(spec=None, spec_revision=4), "")]
)  # fmt: skip
def test_the_last_known_values_are_kept_while_the_rendezvous_cannot_be_read(
    at: RendezvousView, etcd_trouble: str
) -> None:
    before = next_status_of(running(0, 1), replicas=2)
    after = next_status(seen(job(status=before, replicas=2), at, pod(0), etcd_trouble=etcd_trouble))
    assert is_true(after.conditions, ConditionType.RENDEZVOUS_UNAVAILABLE)
    assert (after.phase, after.ready_replicas, after.rendezvous_round) == (Phase.RUNNING, 2, 1)
    assert after.replicas == 1


def test_the_job_is_not_unavailable_any_more_when_etcd_answers_again() -> None:
    before = next_status(seen(job(), RendezvousView(), etcd_trouble="no answer"))
    assert not is_true(next_status_of(running(0), before=before).conditions, ConditionType.RENDEZVOUS_UNAVAILABLE)


# A rejected manifest.


def test_a_rejected_manifest_sets_the_reason_and_changes_nothing_else() -> None:
    before = next_status_of(running(0))
    after = rejected_status(before, "spec.replicas: is 0", now=NOW, generation=8)
    refused = {each.type: each for each in after.conditions}["Accepted"]
    assert (refused.status, refused.reason, refused.message) == ("False", "InvalidSpec", "spec.replicas: is 0")
    assert (after.reason, after.message) == ("InvalidSpec", "spec.replicas: is 0")
    assert replace(after, conditions=before.conditions, observed_generation=7, reason="", message="") == before
    assert after.observed_generation == 8


def test_a_rejected_job_has_not_ended_and_continues_with_a_corrected_manifest() -> None:
    refused = rejected_status(JobStatus(), "bad", now=NOW, generation=1)
    assert not is_finished(refused)
    assert is_true(next_status_of(running(0), before=refused).conditions, ConditionType.ACCEPTED)


def test_the_observed_generation_is_that_of_the_manifest() -> None:
    after = next_status_of(view(0))
    assert after.observed_generation == 7
    assert {each.observed_generation for each in after.conditions} == {7}


def test_the_same_view_gives_the_same_status_again() -> None:
    at = view(0, state=active(0), nodes={member(0): node(0)})
    once = next_status_of(at, pod(0))
    assert next_status_of(at, pod(0), before=once) == once

"""The whole status: what is rebuilt, what never falls, what is kept, and what an ended job still changes."""

from dataclasses import replace
from typing import Any

import pytest

from elasticjob_api.constants import ConditionType, Phase
from elasticjob_api.rendezvous_state import Cause, RoundPhase
from elasticjob_api.status import JobStatus, WorkerStates
from elasticjob_operator.model.job_state import JobState
from elasticjob_operator.model.rendezvous_view import RendezvousView
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
    seen,
    view,
    world,
)


def said(at: RendezvousView, *pods: Any, before: JobStatus | None = None, **spec: Any) -> JobStatus:
    return next_status(seen(job(status=before, **spec), at, *pods))


# Counts.


def test_pods_are_counted_as_live_and_as_terminating() -> None:
    after = said(view(), pod(0), pod(1, phase="Pending"), pod(2, terminating=True), pod(3, phase="Failed"), replicas=2)
    assert (after.replicas, after.terminating_replicas, after.desired_replicas) == (2, 1, 2)


def test_the_selector_is_by_uid_so_that_a_predecessors_pods_are_not_scaled() -> None:
    assert said(view()).selector == "elasticjob.io/job-uid=job-uid"


def test_ready_are_the_nodes_of_the_active_round_and_not_the_pods() -> None:
    assert said(running(0, 1), pod(0), pod(1), pod(2), replicas=3).ready_replicas == 2
    assert said(view(0, 1, world=world()), pod(0), pod(1), replicas=2).ready_replicas == 0


def test_round_size_and_master_come_from_the_world() -> None:
    at = view(0, 1, world=active(1, 0, round=4, nprocs="2x1,3x1"))
    after = said(at, replicas=2)
    assert (after.rendezvous_round, after.world_size, after.master_pod) == (4, 5, "j-1-a")


COUNTED = JobStatus(rendezvous_round=9, restarts=3, node_losses=2, pod_replacements=4, master_pod="j-0-a")


def test_counters_are_recomputed_from_world_and_record() -> None:
    at = view(0, spec=record(0, replacements=5), world=active(0, round=10, restarts=4, node_losses=6))
    after = said(at, before=COUNTED)
    assert (after.rendezvous_round, after.restarts, after.node_losses, after.pod_replacements) == (10, 4, 6, 5)


@pytest.mark.parametrize("at", [RendezvousView(), view(0, world=world())])
def test_counters_never_fall_even_if_etcd_was_wiped(at: RendezvousView) -> None:
    after = said(at, before=COUNTED)
    assert (after.rendezvous_round, after.restarts, after.node_losses, after.pod_replacements) == (9, 3, 2, 4)


def test_the_master_pod_is_kept_while_a_round_forms_because_its_log_is_still_there() -> None:
    assert said(view(0, world=world()), before=COUNTED).master_pod == "j-0-a"


def test_workers_are_counted_over_all_nodes() -> None:
    after = said(view(0, 1, nodes={}), replicas=2, nproc_per_node=4)
    assert after.worker_states == WorkerStates(pending=8)


def test_the_round_of_a_job_that_fails_while_it_forms_is_the_last_that_ran() -> None:
    before = said(running(0), pod(0))
    failed = said(view(spec=record(), world=world(RoundPhase.FAILED, round=2), membership=membership(0)), before=before)
    assert (before.rendezvous_round, failed.rendezvous_round) == (1, 1)


@pytest.mark.parametrize("before", [None, COUNTED])
def test_a_job_that_fails_at_once_has_the_size_of_its_last_round(before: JobStatus | None) -> None:
    at = view(spec=record(), world=world(RoundPhase.FAILED, round=2), membership=membership(0, 1))
    assert said(at, before=before, nproc_per_node=2).world_size == 4


@pytest.mark.parametrize(("window_s", "charges", "count"), [(0.0, "", 5), (60.0, "4:0.0,12.5", 2), (60.0, "", 0)])
def test_restarts_that_count_are_those_within_the_window(window_s: float, charges: str, count: int) -> None:
    at = running(0, world=active(0, restarts=5, charged_failures=charges))
    assert said(at, pod(0), restart_window_s=window_s).restarts_count_towards_max == count


def test_a_change_of_the_wish_is_told_with_its_time() -> None:
    before = said(running(0), pod(0))
    assert before.last_scale_time == ""
    assert said(running(0), pod(0), before=before, replicas=2).last_scale_time == NOW


def test_what_this_process_wrote_last_is_newer_than_the_jobs_cache() -> None:
    job_state = JobState(status=JobStatus(restarts=2))
    assert next_status(seen(job(status=JobStatus(restarts=1)), view(0), job_state=job_state)).restarts == 2


# Times.


def test_a_job_starts_when_it_is_first_seen_and_keeps_that_time() -> None:
    assert said(RendezvousView()).start_time == NOW
    assert said(RendezvousView(), before=JobStatus(start_time=ago(60))).start_time == ago(60)


def test_suspending_clears_the_start_and_resuming_sets_it_anew() -> None:
    stopped = said(running(0), before=JobStatus(start_time=ago(60)), suspend=True)
    assert stopped.start_time == ""
    assert said(view(0), before=stopped).start_time == NOW


def test_completion_is_said_once() -> None:
    ended = said(view(world=world(RoundPhase.SUCCEEDED)), before=JobStatus(start_time=ago(60)))
    assert (ended.start_time, ended.completion_time) == (ago(60), NOW)
    assert ended.phase is Phase.SUCCEEDED


def test_a_running_job_has_no_completion() -> None:
    assert said(running(0)).completion_time == ""


def test_the_time_of_a_rendezvous_is_when_its_round_was_first_seen_active() -> None:
    first = said(running(0))
    assert first.last_rendezvous_time == NOW
    later = seen(job(status=first), running(0), now_s=NOW_S + 60)
    assert next_status(later).last_rendezvous_time == NOW


def test_a_new_round_takes_a_new_time() -> None:
    before = replace(said(running(0)), last_rendezvous_time=ago(60))
    assert said(view(0, world=active(0, round=2)), before=before).last_rendezvous_time == NOW


def test_a_round_that_was_seen_forming_takes_the_time_at_which_it_is_active() -> None:
    before = JobStatus(rendezvous_round=2, ready_replicas=0, last_rendezvous_time=ago(60))
    assert said(view(0, world=active(0, round=2)), before=before).last_rendezvous_time == NOW


# An end.


ENDED = JobStatus(
    phase=Phase.FAILED,
    conditions=(condition("Failed", reason="DeadlineExceeded"),),
    restarts=1,
    start_time=ago(90),
    completion_time=ago(60),
)


@pytest.mark.parametrize(
    "at", [RendezvousView(), running(0), view(world=world(RoundPhase.SUCCEEDED)), view(spec=None, spec_revision=3)]
)
def test_an_ended_job_stays_ended_whatever_is_seen(at: RendezvousView) -> None:
    after = said(at, before=ENDED)
    assert (after.phase, after.conditions, after.restarts) == (Phase.FAILED, ENDED.conditions, 1)
    assert (after.start_time, after.completion_time) == (ago(90), ago(60))


def test_an_ended_jobs_pods_are_still_counted_and_changes_of_it_are_still_seen() -> None:
    after = said(RendezvousView(), pod(0), before=ENDED)
    assert (after.replicas, after.observed_generation) == (1, 7)


@pytest.mark.parametrize(("name", "ended"), [("Complete", True), ("Failed", True), ("Suspended", False)])
def test_complete_and_failed_are_ends(name: str, *, ended: bool) -> None:
    assert is_finished(JobStatus(conditions=(condition(name),))) is ended
    assert not is_finished(JobStatus(conditions=(condition(name, "False"),)))


def test_a_failed_world_ends_the_job_with_its_reason() -> None:
    after = said(view(world=world(RoundPhase.FAILED, cause=Cause.MAX_RESTARTS, message="4 of 3", restarts=4)))
    assert (after.phase, after.restarts, after.completion_time) == (Phase.FAILED, 4, NOW)


def test_the_size_of_the_last_round_survives_its_end() -> None:
    before = said(running(0, 1), replicas=2)
    after = said(view(world=world(RoundPhase.SUCCEEDED)), before=before, replicas=2)
    assert after.world_size == before.world_size == 4


# Trouble.


@pytest.mark.parametrize(
    ("at", "trouble"), [(RendezvousView(), "no answer from etcd"), (view(spec=None, spec_revision=4), "")]
)  # fmt: skip
def test_while_the_rendezvous_cannot_be_read_the_last_word_on_it_stands(at: RendezvousView, trouble: str) -> None:
    before = said(running(0, 1), replicas=2)
    after = next_status(seen(job(status=before, replicas=2), at, pod(0), etcd_trouble=trouble))
    assert is_true(after.conditions, ConditionType.RENDEZVOUS_UNAVAILABLE)
    assert (after.phase, after.ready_replicas, after.rendezvous_round) == (Phase.RUNNING, 2, 1)
    assert after.replicas == 1


def test_the_trouble_goes_when_etcd_answers_again() -> None:
    before = next_status(seen(job(), RendezvousView(), etcd_trouble="no answer"))
    assert not is_true(said(running(0), before=before).conditions, ConditionType.RENDEZVOUS_UNAVAILABLE)


# A refusal.


def test_a_refused_manifest_says_why_and_changes_nothing_else() -> None:
    before = said(running(0))
    after = rejected_status(before, "spec.replicas: is 0", now=NOW, generation=8)
    refused = {each.type: each for each in after.conditions}["Accepted"]
    assert (refused.status, refused.reason, refused.message) == ("False", "InvalidSpec", "spec.replicas: is 0")
    assert (after.reason, after.message) == ("InvalidSpec", "spec.replicas: is 0")
    assert replace(after, conditions=before.conditions, observed_generation=7, reason="", message="") == before
    assert after.observed_generation == 8


def test_a_refusal_is_no_end_and_a_corrected_manifest_goes_on() -> None:
    refused = rejected_status(JobStatus(), "bad", now=NOW, generation=1)
    assert not is_finished(refused)
    assert is_true(said(running(0), before=refused).conditions, ConditionType.ACCEPTED)


def test_the_generation_that_was_acted_on_is_said() -> None:
    after = said(view(0))
    assert after.observed_generation == 7
    assert {each.observed_generation for each in after.conditions} == {7}


def test_the_same_view_gives_the_same_status_again() -> None:
    at = view(0, world=active(0), nodes={member(0): node(0)})
    once = said(at, pod(0))
    assert said(at, pod(0), before=once) == once

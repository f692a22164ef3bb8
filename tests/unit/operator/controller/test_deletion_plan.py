"""The plan for a deleted job, in its order: slots are emptied, pods deleted, and the keys when no pod is left."""

from dataclasses import replace

from elasticjob_api.rendezvous_state import Cause, RoundPhase
from elasticjob_operator.controller.deletion_plan import plan_deletion, plan_quota_violation
from elasticjob_operator.model.actions import DeletePods, DeletePrefix, RemoveEtcdUser, WriteSpec
from elasticjob_operator.policy.lifecycle.spec_record import without_slots
from testing.builders import NOW_S, SETTINGS, by_name, pod, record, running, view, world

TLS = replace(SETTINGS, etcd_tls=True)
ANOTHER = replace(SETTINGS, operator_id="another")


def test_pods_are_deleted_and_slots_emptied_before_the_keys() -> None:
    at = running(0, 1)
    assert at.spec is not None
    made = plan_deletion(at, by_name(pod(0), pod(1, terminating=True)), SETTINGS, now_s=NOW_S)
    assert made.actions == (
        DeletePods({"j-0-a": "uid-j-0-a"}, None, {"j-0-a": ""}),
        WriteSpec(record=without_slots(at.spec), spec_revision=5, world_revision=6),
    )


def test_an_emptied_map_owns_no_slot_and_is_written_once() -> None:
    empty = without_slots(record(0, 1))
    assert empty.slots == {}
    assert plan_deletion(running(spec=empty), by_name(pod(0, terminating=True)), SETTINGS, now_s=NOW_S).actions == ()


def test_the_map_of_an_ended_job_is_not_changed() -> None:
    at = running(0, world=world(RoundPhase.SUCCEEDED, cause=Cause.SUCCEEDED))
    assert plan_deletion(at, by_name(pod(0, terminating=True)), SETTINGS, now_s=NOW_S).actions == ()


def test_the_keys_are_deleted_when_no_pod_is_left() -> None:
    assert plan_deletion(running(0), {}, SETTINGS, now_s=NOW_S).actions == (DeletePrefix(),)


def test_keys_of_another_installation_are_left_with_or_without_pods() -> None:
    assert plan_deletion(running(0), {}, ANOTHER, now_s=NOW_S).actions == ()
    made = plan_deletion(running(0), by_name(pod(0)), ANOTHER, now_s=NOW_S)
    assert made.actions == (DeletePods({"j-0-a": "uid-j-0-a"}, None, {"j-0-a": ""}),)


def test_keys_that_no_operator_has_written_are_left() -> None:
    assert plan_deletion(view(spec=record(0, operator=None)), {}, SETTINGS, now_s=NOW_S).actions == ()
    assert plan_deletion(view(spec=None, world=world()), {}, SETTINGS, now_s=NOW_S).actions == ()


def test_with_certificates_a_pod_is_awaited_for_its_grace_period_only() -> None:
    """A finalizer may keep a pod for ever, and a copy of its certificate would give access for as long."""
    at, terminating = running(spec=without_slots(record(0))), by_name(pod(0, terminating=True, grace_ends_s=NOW_S))
    made = plan_deletion(at, terminating, TLS, now_s=NOW_S)
    assert made.actions == ()
    assert made.requeue_in_s == 10.0
    assert plan_deletion(at, terminating, TLS, now_s=NOW_S + 10).actions == (RemoveEtcdUser(), DeletePrefix())
    assert plan_deletion(at, terminating, SETTINGS, now_s=NOW_S + 10).actions == ()
    ended = by_name(pod(0, terminating=True, phase="Failed", grace_ends_s=NOW_S + 1000))
    assert plan_deletion(at, ended, TLS, now_s=NOW_S).actions == (RemoveEtcdUser(), DeletePrefix())
    assert plan_deletion(at, by_name(pod(0, terminating=True)), TLS, now_s=NOW_S).actions == ()


def test_a_deleted_job_over_its_quota_loses_its_certificate_while_its_pods_exist() -> None:
    too_much = replace(running(spec=without_slots(record(0))), quota_violation="it holds too much")
    grace = by_name(pod(0, terminating=True, grace_ends_s=NOW_S + 1000))
    assert plan_deletion(too_much, grace, TLS, now_s=NOW_S).actions == (RemoveEtcdUser(), DeletePrefix())
    assert plan_deletion(replace(too_much, empty=True), grace, TLS, now_s=NOW_S).actions == ()
    assert plan_quota_violation(too_much, TLS) == (RemoveEtcdUser(), DeletePrefix())
    assert plan_quota_violation(too_much, SETTINGS) == (DeletePrefix(),)
    assert plan_quota_violation(running(0), TLS) == plan_quota_violation(replace(too_much, empty=True), TLS) == ()


def test_a_claimed_job_is_ours_even_with_an_invalid_map() -> None:
    spoilt = view(spec=None, world=world())
    assert plan_deletion(spoilt, {}, TLS, now_s=NOW_S, claimed=True).actions == (RemoveEtcdUser(), DeletePrefix())
    assert plan_deletion(replace(spoilt, empty=True), {}, TLS, now_s=NOW_S, claimed=True).actions == ()

"""The plan for a deleted job, in its order: slots are emptied, pods deleted, and the keys when no pod is left."""

from dataclasses import replace

from elasticjob_api.constants import EventReason
from elasticjob_api.rendezvous_state import Cause, RoundPhase
from elasticjob_api.rendezvous_view import RendezvousView
from elasticjob_operator.model.actions import DeletePods, DeletePrefix, Plan, RemoveEtcdUser, WriteSpec
from elasticjob_operator.model.event import Event
from elasticjob_operator.model.job_state import JobState
from elasticjob_operator.planner.deletion_plan import plan_deletion, plan_quota_violation
from elasticjob_operator.policy.lifecycle.spec_record import without_slots
from testing.builders import NOW_S, SETTINGS, deleted, observation, pod, record, running, state, view

TLS = replace(SETTINGS, etcd_tls=True)
ANOTHER = replace(SETTINGS, operator_id="another")


def test_pods_are_deleted_and_slots_emptied_before_the_keys() -> None:
    at = running(0, 1)
    assert at.spec is not None
    made = plan_deletion(deleted(at, pod(0), pod(1, terminating=True)))
    assert made.actions == (
        DeletePods({"j-0-a": "uid-j-0-a"}, None, {"j-0-a": ""}),
        WriteSpec(record=without_slots(at.spec), spec_revision=5, state_revision=6),
    )


def test_an_emptied_map_owns_no_slot_and_is_written_once() -> None:
    empty = without_slots(record(0, 1))
    assert empty.slots == {}
    assert plan_deletion(deleted(running(spec=empty), pod(0, terminating=True))).actions == ()


def test_the_map_of_an_ended_job_is_not_changed() -> None:
    at = running(0, state=state(RoundPhase.SUCCEEDED, cause=Cause.SUCCEEDED))
    assert plan_deletion(deleted(at, pod(0, terminating=True))).actions == ()


def test_the_keys_are_deleted_when_no_pod_is_left() -> None:
    assert plan_deletion(deleted(running(0))).actions == (DeletePrefix(),)


def test_keys_of_another_installation_are_left_with_or_without_pods() -> None:
    assert plan_deletion(deleted(running(0), settings=ANOTHER)).actions == ()
    made = plan_deletion(deleted(running(0), pod(0), settings=ANOTHER))
    assert made.actions == (DeletePods({"j-0-a": "uid-j-0-a"}, None, {"j-0-a": ""}),)


def test_keys_that_no_operator_has_written_are_left() -> None:
    assert plan_deletion(deleted(view(spec=record(0, operator=None)))).actions == ()
    assert plan_deletion(deleted(view(spec=None, state=state()))).actions == ()


def test_with_certificates_a_pod_is_awaited_for_its_grace_period_only() -> None:
    """A finalizer may keep a pod for ever, and a copy of its certificate would give access for as long."""
    at, terminating = running(spec=without_slots(record(0))), pod(0, terminating=True, grace_ends_s=NOW_S)
    made = plan_deletion(deleted(at, terminating, settings=TLS))
    assert made.actions == ()
    assert made.requeue_in_s == 10.0
    later = deleted(at, terminating, settings=TLS, now_s=NOW_S + 10)
    assert plan_deletion(later).actions == (RemoveEtcdUser(), DeletePrefix())
    assert plan_deletion(deleted(at, terminating, now_s=NOW_S + 10)).actions == ()
    ended = pod(0, terminating=True, phase="Failed", grace_ends_s=NOW_S + 1000)
    assert plan_deletion(deleted(at, ended, settings=TLS)).actions == (RemoveEtcdUser(), DeletePrefix())
    assert plan_deletion(deleted(at, pod(0, terminating=True), settings=TLS)).actions == ()


def test_a_deleted_job_over_its_quota_loses_its_certificate_while_its_pods_exist() -> None:
    too_much = replace(running(spec=without_slots(record(0))), quota_violation="it holds too much")
    grace = pod(0, terminating=True, grace_ends_s=NOW_S + 1000)
    assert plan_deletion(deleted(too_much, grace, settings=TLS)).actions == (RemoveEtcdUser(), DeletePrefix())
    assert plan_deletion(deleted(replace(too_much, empty=True), grace, settings=TLS)).actions == ()
    assert plan_quota_violation(observation(too_much, settings=TLS)) == (RemoveEtcdUser(), DeletePrefix())
    assert plan_quota_violation(observation(too_much)) == (DeletePrefix(),)
    assert plan_quota_violation(observation(running(0), settings=TLS)) == ()
    assert plan_quota_violation(observation(replace(too_much, empty=True), settings=TLS)) == ()


def test_a_claimed_job_is_ours_even_with_an_invalid_map() -> None:
    spoilt, claimed = view(spec=None, state=state()), JobState(installation="here")
    made = plan_deletion(deleted(spoilt, settings=TLS, job_state=claimed))
    assert made.actions == (RemoveEtcdUser(), DeletePrefix())
    assert plan_deletion(deleted(replace(spoilt, empty=True), settings=TLS, job_state=claimed)).actions == ()


def test_pods_of_another_installation_are_left_and_not_awaited() -> None:
    here = replace(SETTINGS, installation="here")
    made = plan_deletion(deleted(running(0), pod(0, installation="there"), settings=here))
    assert made.actions == (DeletePrefix(),)
    left_alone = JobState(foreign_event=Event(EventReason.OWNED_BY_ANOTHER, "it belongs to installation there"))
    assert plan_deletion(deleted(RendezvousView(), pod(0), settings=here, job_state=left_alone)).actions == ()


def test_a_user_is_removed_when_no_pod_of_any_installation_may_use_it() -> None:
    """Keys that the user alone proves to be ours may be those of a newer installation, which took the job over."""
    here, user = replace(TLS, installation="here", operator_id="another"), JobState(has_user=True)
    running_there = pod(0, installation="there", terminating=True, grace_ends_s=NOW_S)
    for at in (running(0), replace(running(0), quota_violation="it holds too much"), RendezvousView()):
        made = plan_deletion(deleted(at, running_there, settings=here, job_state=user))
        assert made == Plan(requeue_in_s=10.0, is_last=False)
        later = deleted(at, running_there, settings=here, job_state=user, now_s=NOW_S + 10)
        assert plan_deletion(later).actions[-2:] == (RemoveEtcdUser(), DeletePrefix())


def test_the_map_of_another_installation_is_not_emptied() -> None:
    made = plan_deletion(
        deleted(
            running(0),
            pod(0, terminating=True),
            settings=replace(ANOTHER, etcd_tls=True),
            job_state=JobState(has_user=True),
        )
    )
    assert made.actions == ()


def test_a_user_without_keys_is_removed_and_the_job_then_forgotten() -> None:
    made = plan_deletion(deleted(RendezvousView(), settings=TLS, job_state=JobState(has_user=True)))
    assert made == Plan(actions=(RemoveEtcdUser(), DeletePrefix()), is_last=True)
    assert plan_deletion(deleted(RendezvousView(), settings=TLS)) == Plan(is_last=True)
    assert not plan_deletion(deleted(RendezvousView(), pod(0), settings=TLS, job_state=JobState(has_user=True))).is_last


def test_keys_that_only_a_user_proves_to_be_ours_are_deleted_before_it_and_after_it() -> None:
    """A failed attempt is repeated while the user exists; what it wrote until its removal is deleted last."""
    strange = view(spec=None, state=state())
    made = plan_deletion(deleted(strange, settings=TLS, job_state=JobState(has_user=True)))
    assert made.actions == (DeletePrefix(), RemoveEtcdUser(), DeletePrefix())
    made = plan_deletion(deleted(running(0), settings=TLS, job_state=JobState(has_user=True)))
    assert made.actions == (RemoveEtcdUser(), DeletePrefix())

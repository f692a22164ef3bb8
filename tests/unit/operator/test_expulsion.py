"""A job over its quota of etcd: its user is removed at once, then the reason is written, then all is deleted."""

from dataclasses import replace

import pytest

from elasticjob_api.constants import ConditionType, FailedReason
from elasticjob_api.rendezvous_view import RendezvousView
from elasticjob_api.status import JobStatus
from elasticjob_operator.model.actions import DeletePods, DeletePrefix, Plan, RemoveEtcdUser
from elasticjob_operator.model.ids import Ids
from elasticjob_operator.model.snapshot import JobSnapshot
from elasticjob_operator.planner.plan import plan
from elasticjob_operator.policy.status.conditions import is_true
from testing.builders import SETTINGS, job, pod, record, seen

MISUSED = RendezvousView(revision=9, spec=record(0, 1), spec_revision=3, quota_violation="much", empty=False)
IDS = Ids(suffix=lambda: "new", nonce=lambda: "o")


def observed(at: RendezvousView, status: JobStatus | None = None, *, tls: bool = True) -> JobSnapshot:
    made = seen(job(status=status or JobStatus(), replicas=2), at, pod(0), pod(1, terminating=True))
    return replace(made, settings=replace(SETTINGS, etcd_tls=tls))


def planned(at: RendezvousView, status: JobStatus | None = None, *, tls: bool = True) -> Plan:
    return plan(observed(at, status, tls=tls), IDS)


@pytest.fixture
def failed_status() -> JobStatus:
    """Return the status of the first plan."""
    made = planned(MISUSED).status
    assert made is not None
    return made


def test_the_user_is_removed_first_and_the_job_fails_with_the_reason(failed_status: JobStatus) -> None:
    made = planned(MISUSED)
    assert made.actions == (RemoveEtcdUser(),)
    assert is_true(failed_status.conditions, ConditionType.FAILED)
    assert (failed_status.phase, failed_status.reason) == ("Failed", FailedReason.FOOTPRINT)
    assert failed_status.message == "the job's certificate is misused: much"
    assert failed_status.completion_time
    assert not is_true(failed_status.conditions, ConditionType.RUNNING)


def test_pods_and_keys_are_deleted_after_the_status_is_written(failed_status: JobStatus) -> None:
    made = planned(MISUSED, failed_status)
    assert made.actions == (RemoveEtcdUser(), DeletePods({"j-0-a": "uid-j-0-a"}, None), DeletePrefix())
    assert made.status == failed_status


def test_without_certificates_there_is_no_user_to_remove(failed_status: JobStatus) -> None:
    assert planned(MISUSED, tls=False).actions == ()
    assert RemoveEtcdUser() not in planned(MISUSED, failed_status, tls=False).actions


def test_without_keys_it_is_an_ordinary_ended_job(failed_status: JobStatus) -> None:
    gone = replace(MISUSED, spec=None, spec_revision=0, empty=True)
    assert not {type(action) for action in planned(gone, failed_status).actions} & {RemoveEtcdUser, DeletePrefix}


def test_a_succeeded_job_remains_succeeded_and_its_keys_are_deleted() -> None:
    succeeded = planned(MISUSED).status
    assert succeeded is not None
    conditions = tuple(
        replace(c, status={ConditionType.COMPLETE: "True", ConditionType.FAILED: "False"}.get(c.type, c.status))  # type: ignore[call-overload]
        for c in succeeded.conditions
    )
    made = planned(MISUSED, replace(succeeded, conditions=conditions, reason="", message=""))
    assert DeletePrefix() in made.actions
    assert made.status is not None
    assert not is_true(made.status.conditions, ConditionType.FAILED)


def test_nothing_is_done_while_etcd_does_not_answer() -> None:
    assert plan(replace(observed(MISUSED), etcd_trouble="away"), IDS).actions == ()

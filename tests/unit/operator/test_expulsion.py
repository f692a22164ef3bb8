"""A job that takes more of etcd than its allowance: its user goes at once, then it is said why, then all of it goes."""

from dataclasses import replace

import pytest

from elasticjob_api.constants import ConditionType, FailedReason
from elasticjob_api.status import JobStatus
from elasticjob_operator.controller.ids import Ids
from elasticjob_operator.controller.plan import plan
from elasticjob_operator.model.actions import DeletePods, DeletePrefix, Plan, RemoveEtcdUser
from elasticjob_operator.model.rendezvous_view import RendezvousView
from elasticjob_operator.model.snapshot import JobSnapshot
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
def said() -> JobStatus:
    """What the first plan says of it."""
    made = planned(MISUSED).status
    assert made is not None
    return made


def test_its_user_goes_first_and_it_fails_with_the_reason(said: JobStatus) -> None:
    made = planned(MISUSED)
    assert made.actions == (RemoveEtcdUser(),)
    assert is_true(said.conditions, ConditionType.FAILED)
    assert (said.phase, said.reason) == ("Failed", FailedReason.FOOTPRINT)
    assert said.message == "the job's certificate is misused: much"
    assert said.completion_time
    assert not is_true(said.conditions, ConditionType.RUNNING)


def test_when_it_was_said_pods_and_keys_go(said: JobStatus) -> None:
    made = planned(MISUSED, said)
    assert made.actions == (RemoveEtcdUser(), DeletePods({"j-0-a": "uid-j-0-a"}, None), DeletePrefix())
    assert made.status == said


def test_without_certificates_there_is_no_user_to_remove(said: JobStatus) -> None:
    assert planned(MISUSED, tls=False).actions == ()
    assert RemoveEtcdUser() not in planned(MISUSED, said, tls=False).actions


def test_when_nothing_is_left_it_is_an_ended_job_like_others(said: JobStatus) -> None:
    gone = replace(MISUSED, spec=None, spec_revision=0, empty=True)
    assert not {type(action) for action in planned(gone, said).actions} & {RemoveEtcdUser, DeletePrefix}


def test_a_job_that_has_ended_well_stays_so_and_is_emptied_all_the_same() -> None:
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

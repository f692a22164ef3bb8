"""When a job gets its first certificate, and each renewed one."""

from dataclasses import replace

import pytest

from elasticjob_api.status import JobStatus
from elasticjob_operator.controller.ids import random_ids
from elasticjob_operator.model.actions import Action, CreatePod, DeletePrefix, IssueCertificate, RemoveEtcdUser
from elasticjob_operator.model.job_state import Certified, JobState
from elasticjob_operator.model.pod_source import PodSource
from elasticjob_operator.model.snapshot import JobSnapshot
from elasticjob_operator.planner.deletion_plan import plan_deletion
from elasticjob_operator.planner.plan import plan
from elasticjob_operator.policy.lifecycle.spec_record import spec_record
from elasticjob_operator.render.pod import render_pod
from elasticjob_operator.render.secret import secret_name
from testing.builders import NOW_S, SETTINGS, ago, deleted, job, names, record, running, seen, view

TLS = replace(SETTINGS, etcd_tls=True)


def planned(observed: JobSnapshot) -> list[Action]:
    return list(plan(observed, random_ids()).actions)


def observed(certified: Certified | None, *, tls: bool = True, store: int = 0) -> JobSnapshot:
    """Return a snapshot of a job whose slot map is written and whose pod was never created."""
    job_state, status = JobState(certified=certified), JobStatus(start_time=ago(1))
    job_state.expect("j-0-a")
    of = job(status=status)
    at = view(spec=spec_record(of, record(), names((0,)), suspended=False))
    return seen(of, at, job_state=job_state, settings=TLS if tls else SETTINGS, store=store)


def test_the_first_certificate_precedes_all_other_actions() -> None:
    first, *rest = planned(observed(None))
    assert isinstance(first, IssueCertificate)
    assert first.secret["metadata"]["name"] == secret_name(job())
    assert any(isinstance(action, CreatePod) for action in rest)


@pytest.mark.parametrize(
    ("certified", "store", "wanted"),
    [
        (Certified(0, NOW_S + 1), 0, []),
        (Certified(0, NOW_S + 1), 1, [0]),
        (Certified(0, NOW_S), 0, [-1]),
    ],
    ids=["not due", "another etcd: the first action", "half of the lifetime is over: the last action"],
)
def test_certificates_are_issued_when_they_are_due(certified: Certified, store: int, wanted: list[int]) -> None:
    actions = planned(observed(certified, store=store))
    places = [index for index, action in enumerate(actions) if isinstance(action, IssueCertificate)]
    assert places == [index % len(actions) for index in wanted]


def test_the_job_is_reconciled_when_the_next_certificate_is_due() -> None:
    assert plan(observed(Certified(0, NOW_S + 1)), random_ids()).requeue_in_s == 1


def test_without_tls_there_is_no_certificate_and_no_user_to_remove() -> None:
    assert not any(isinstance(action, IssueCertificate) for action in planned(observed(None, tls=False)))
    assert plan_deletion(deleted(running(0))).actions == (DeletePrefix(),)


def test_the_user_is_removed_before_the_prefix_so_that_a_failure_is_retried() -> None:
    assert plan_deletion(deleted(running(0), settings=TLS)).actions == (RemoveEtcdUser(), DeletePrefix())


def test_the_trainer_has_the_files_and_their_path_in_its_environment() -> None:
    spec = render_pod(PodSource(job(), TLS), slot=0, name="j-0-a")["spec"]
    [volume] = [volume for volume in spec["volumes"] if "secret" in volume]
    assert volume["secret"] == {"secretName": "j-etcd-job-uid"}
    [mount] = [mount for mount in spec["containers"][0]["volumeMounts"] if mount["name"] == volume["name"]]
    assert mount["readOnly"]
    assert {"name": "ELASTICJOB_ETCD_TLS", "value": mount["mountPath"]} in spec["containers"][0]["env"]

"""Jobs of which the operator caches only a part."""

from collections.abc import Iterator

import pytest

from elasticjob_api.constants import ConditionType
from elasticjob_etcd.interface import Put
from elasticjob_operator.informers.transform import head
from elasticjob_operator.model import objects
from elasticjob_operator.model.cluster_interface import Object, Resource
from elasticjob_operator.model.minimal_job import minimal_job
from tests.unit.operator.cluster_model import Model


@pytest.fixture
def model() -> Iterator[Model]:
    made = Model(replicas=2)
    yield made
    made.close()


def deliver(model: Model, job: Object) -> None:
    """Deliver the job in this version, and reconcile it."""
    model.process.jobs._jobs[model.key] = job
    model.begin_reconcile()
    model.finish_reconcile()


def test_a_job_over_the_quota_is_claimed_before_it_is_refused(
    model: Model,
) -> None:
    deliver(model, head(model.job, "is more than there is room"))
    status = model.status()
    assert (status["installation"], status["reason"]) == ("here", "InvalidSpec")
    assert status["message"] == "spec: is more than there is room"


def test_the_status_of_a_refused_job_is_written_before_its_keys_are_deleted(model: Model) -> None:
    """Etcd may hang: that must not delay the reason of the refusal."""
    for _ in range(2):
        deliver(model, model.job)
    for rank in range(64):
        model._put(Put(model.keys.failure(1, 0, rank), bytes(1 << 20)))
    assert model.process.rendezvous.view(model.key).quota_violation
    model.process.jobs._jobs[model.key] = head(model.job, "is more than there is room")
    model.begin_reconcile()
    assert [held.description for held in model.process.gate.held] == ["status"]
    model.finish_reconcile()
    assert model.status()["reason"] == "InvalidSpec"
    assert not model.store.range(model.keys.everything).kvs


def test_a_job_that_is_too_large_is_refused_and_not_claimed(model: Model) -> None:
    deliver(model, {**head(model.job, "is too large"), objects.TOO_LARGE: True})
    assert (model.status().get("installation"), model.status()["reason"]) == (None, "InvalidSpec")


def test_a_job_over_the_quota_of_another_installation_is_not_written_to(model: Model) -> None:
    deliver(model, head({**model.job, "status": {"installation": "there"}}, "is more than there is room"))
    assert not model.status()


def test_a_job_that_a_user_marked_as_ended_continues_with_its_whole_spec(model: Model) -> None:
    for _ in range(2):
        deliver(model, model.job)
    model.process.deliver(Resource.POD)
    model.patch(replicas=3)
    obj = model.job_object()
    assert obj is not None
    ended = {"type": ConditionType.COMPLETE, "status": "True"}
    for _ in range(4):
        deliver(model, minimal_job({**obj, "status": {**obj["status"], "conditions": [ended]}}))
    pods = model.pods()
    assert len(pods) == 3
    assert all(container["command"] != ["-"] for pod in pods for container in pod["spec"]["containers"])
    assert model.status()["phase"] == "Pending"


def test_a_job_that_is_read_whole_while_it_is_orphaned_keeps_its_pods(model: Model) -> None:
    for _ in range(2):
        deliver(model, model.job)
        model.process.deliver(Resource.POD)
    obj = model.job_object()
    assert obj is not None
    orphaned = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": [objects.ORPHAN_FINALIZER]}
    model.cluster._store(Resource.JOB, {**obj, "metadata": {**obj["metadata"], **orphaned}})
    deliver(model, minimal_job({**obj, "status": {**obj["status"], "completionTime": "2026-01-01T00:00:00Z"}}))
    assert [objects.is_terminating(pod) for pod in model.pods()] == [False, False]
    spec = model.spec()
    assert spec is not None
    assert len(spec.slots) == 2


def test_a_job_over_the_quota_can_be_suspended_and_resumed_with_its_own_command(model: Model) -> None:
    for _ in range(3):
        deliver(model, model.job)
        model.process.deliver(Resource.POD)
    assert len(model.pods()) == 2
    for _ in range(3):
        deliver(model, minimal_job({**model.job, "spec": {**model.job["spec"], "suspend": True}}))
        model.process.deliver(Resource.POD)
    assert (model.pods(), model.status()["phase"]) == ([], "Suspended")
    for _ in range(3):
        deliver(model, model.job)
        model.process.deliver(Resource.POD)
    commands = [each["command"] for pod in model.pods() for each in pod["spec"]["containers"]]
    assert len(model.pods()) == 2
    assert ["-"] not in commands
    assert all("-" not in command for command in commands)

"""What becomes of a job of which the operator does not keep all."""

from collections.abc import Iterator

import pytest
from kubernetes.aio import client

from elasticjob_api.constants import ConditionType
from elasticjob_operator.cluster.kube import KubeCluster
from elasticjob_operator.informers.event_bus import EventBus
from elasticjob_operator.informers.transform import head
from elasticjob_operator.model import objects
from elasticjob_operator.model.cluster_interface import Object, Resource
from elasticjob_operator.model.finished_job import minimal_job
from tests.unit.operator.cluster_model import Model

DELETED = (
    b'{"type":"DELETED","object":{"metadata":{"name":"j","namespace":"n","uid":"u","resourceVersion":"7"},"spec":1}}'
)


@pytest.fixture
def model() -> Iterator[Model]:
    made = Model(replicas=2)
    yield made
    made.close()


def show(model: Model, job: Object) -> None:
    """The watch shows the job so, and it has its turn."""
    model.process.jobs._jobs[model.key] = job
    model.begin_turn()
    model.finish_turn()


def test_a_job_that_is_refused_for_want_of_room_is_claimed_first_so_no_other_installation_writes_on_it(
    model: Model,
) -> None:
    show(model, head(model.job, "is more than there is room"))
    status = model.status()
    assert (status["installation"], status["reason"]) == ("here", "InvalidSpec")
    assert status["message"] == "spec: is more than there is room"


def test_a_job_that_is_too_large_for_any_operator_is_refused_and_not_claimed(model: Model) -> None:
    show(model, {**head(model.job, "is too large"), objects.TOO_LARGE: True})
    assert (model.status().get("installation"), model.status()["reason"]) == (None, "InvalidSpec")


def test_a_job_without_room_that_another_installation_has_claimed_is_not_written_to(model: Model) -> None:
    show(model, head({**model.job, "status": {"installation": "there"}}, "is more than there is room"))
    assert not model.status()


def test_a_job_that_somebody_says_has_ended_goes_on_from_its_whole_spec(model: Model) -> None:
    for _ in range(2):
        show(model, model.job)
    model.process.deliver(Resource.POD)
    model.patch(replicas=3)
    said = model.job_object()
    assert said is not None
    ended = {"type": ConditionType.COMPLETE, "status": "True"}
    for _ in range(4):
        show(model, minimal_job({**said, "status": {**said["status"], "conditions": [ended]}}))
    pods = model.pods()
    assert len(pods) == 3
    assert all(container["command"] != ["-"] for pod in pods for container in pod["spec"]["containers"])
    assert model.status()["phase"] == "Pending"


def test_a_job_that_has_no_room_any_more_is_suspended_and_resumed_with_its_own_command(model: Model) -> None:
    for _ in range(3):
        show(model, model.job)
        model.process.deliver(Resource.POD)
    assert len(model.pods()) == 2
    for _ in range(3):
        show(model, minimal_job({**model.job, "spec": {**model.job["spec"], "suspend": True}}))
        model.process.deliver(Resource.POD)
    assert (model.pods(), model.status()["phase"]) == ([], "Suspended")
    for _ in range(3):
        show(model, model.job)
        model.process.deliver(Resource.POD)
    commands = [each["command"] for pod in model.pods() for each in pod["spec"]["containers"]]
    assert len(model.pods()) == 2
    assert ["-"] not in commands
    assert all("-" not in command for command in commands)


async def test_of_a_job_that_was_deleted_nothing_but_its_identity_waits_to_be_told() -> None:
    cluster = KubeCluster(client.ApiClient(client.Configuration(host="http://127.0.0.1:1")), EventBus(), ())
    kind, told = cluster._read(Resource.JOB, "/", DELETED)
    await cluster.close()
    assert (kind, told["metadata"]["uid"], told.get("spec")) == ("DELETED", "u", None)

"""Histories of pods that the API server refuses: few requests, its message in the status, and no lost names."""

from collections.abc import Iterator

import pytest

from elasticjob_api.records import ExpectedSlots, decode
from elasticjob_operator.controller.controller import SWEEP_S
from elasticjob_operator.errors import ClusterError, ClusterUnavailable, Forbidden, InvalidObject, RetryLater
from elasticjob_operator.model.cluster_interface import Resource
from elasticjob_operator.model.objects import name_of
from elasticjob_operator.policy.slots.creation_backoff import MAX_BACKOFF_S
from tests.unit.operator.cluster_model import Model, is_bound, is_live, slot_of

QUOTA = Forbidden('pods "x" is forbidden: exceeded quota: q')
WEBHOOK = RetryLater('failed calling webhook "mutate.example.com"')
NO_ANSWER = ClusterUnavailable("the API server did not answer")
SLOTS = 30


@pytest.fixture
def model() -> Iterator[Model]:
    model = Model(replicas=SLOTS, minReplicas=1, maxReplicas=SLOTS, suspend=True)
    model.quiesce()
    yield model
    model.close()


def pass_time(model: Model, seconds: float) -> None:
    """Let the operator work for that long, as soon as it has something to do."""
    until_s = model.now_s + seconds
    while True:
        for _ in range(4):
            model.undisturbed_turn()
        at_s = model.process.again_at_s
        if at_s is None or at_s > until_s:
            break
        model.now_s = max(model.now_s, at_s)
    model.now_s = until_s


@pytest.mark.parametrize("refusal", [QUOTA, WEBHOOK], ids=["quota", "webhook"])
def test_pods_that_are_refused_cost_few_requests_and_keep_their_names(model: Model, refusal: ClusterError) -> None:
    model.cluster.refusal = refusal
    model.patch(suspend=False)
    pass_time(model, 60.0)
    assert sum(model.cluster.refused.values()) < 12
    names, spec = model.named(), model.store.get(model.keys.spec)
    assert set(model.cluster.refused) < names
    pass_time(model, 600.0)
    assert (model.named(), model.store.get(model.keys.spec)) == (names, spec)
    status = model.status()
    assert (status["reason"], status["message"], status["podReplacements"]) == ("PodsNotCreated", str(refusal), 0)
    model.cluster.refusal = None
    pass_time(model, MAX_BACKOFF_S)
    assert {pod["metadata"]["name"] for pod in model.pods()} == names
    assert model.status().get("reason", "") == ""


def test_pods_whose_creation_has_no_response_cost_few_requests_and_make_no_slot_wait(model: Model) -> None:
    model.cluster.refusal = NO_ANSWER
    model.patch(suspend=False)
    pass_time(model, 60.0)
    assert sum(model.cluster.refused.values()) < 12
    assert max(model.cluster.refused.values()) == 1  # a name with an unknown outcome is not tried again
    status = model.status()
    assert (status["reason"], status["message"]) == ("PodsNotCreated", str(NO_ANSWER))
    model.cluster.refusal = None
    pass_time(model, MAX_BACKOFF_S)
    assert len(model.pods()) == SLOTS
    assert model.status().get("reason", "") == ""


def test_a_refusal_stays_in_the_status_until_a_pod_is_created_or_none_is_missing(model: Model) -> None:
    model.patch(suspend=False)
    model.quiesce()
    for pod in model.pods():
        model.start_pod(pod)
    model.close_round()
    model.quiesce()
    model.cluster.refusal = QUOTA
    gone = next(pod for pod in model.pods() if is_live(pod) and is_bound(pod))
    model.delete_pod(gone)
    model.confirm_deletion(gone)
    pass_time(model, 3.0)
    model.close_round()
    for _ in range(20):
        pass_time(model, 3.0)
        assert (model.status()["reason"], model.status()["message"]) == ("PodsNotCreated", str(QUOTA))
    model.patch(replicas=1)
    pass_time(model, 60.0)
    assert model.status().get("reason") != "PodsNotCreated"


def test_an_unwanted_disruption_budget_is_removed_and_a_foreign_one_of_its_name_remains(model: Model) -> None:
    model.patch(suspend=False)
    model.quiesce()
    assert budgets(model) == ["j"]
    model.patch(podDisruptionBudget="None")
    pass_time(model, 1.0)
    assert budgets(model) == []
    own = {"metadata": {"name": "j", "namespace": "default"}, "spec": {"minAvailable": 1}}
    model.run(model.cluster.create(Resource.DISRUPTION_BUDGET, own))
    model.crash(land=[])
    model.now_s += SWEEP_S
    pass_time(model, 1.0)
    assert budgets(model) == ["j"]
    model.run(model.cluster.delete(Resource.DISRUPTION_BUDGET, "default", "j"))
    model.patch(podDisruptionBudget="MinReplicas")
    pass_time(model, 1.0)
    assert budgets(model) == ["j"]


def budgets(model: Model) -> list[str]:
    return [name_of(each) for each in model.cluster.objects(Resource.DISRUPTION_BUDGET)]


def test_no_round_waits_for_a_pod_that_the_api_server_refuses(model: Model) -> None:
    model.patch(suspend=False, replicas=3)
    model.quiesce()
    for pod in model.pods():
        model.start_pod(pod)
    model.close_round()
    model.cluster.refusal = QUOTA
    model.patch(replicas=5)
    pass_time(model, 20.0)
    assert (len(model.named()), len(model.pods()), expected(model)) == (5, 3, ())
    gone = model.pods()[0]
    model.delete_pod(gone)
    model.confirm_deletion(gone)
    pass_time(model, 20.0)
    assert (len(model.named()), len(model.pods()), expected(model)) == (5, 2, ())
    model.cluster.refusal = None
    pass_time(model, MAX_BACKOFF_S)
    slots = {slot_of(pod) for pod in model.pods()}
    assert (len(slots), set(expected(model))) == (5, {slot for slot in slots if slot not in joined(model)})


def expected(model: Model) -> tuple[int, ...]:
    """Return the slots that a round awaits with its last call."""
    kv = model.store.get(model.keys.expected)
    assert kv is not None
    return decode(ExpectedSlots, kv.value).slots


def joined(model: Model) -> set[int]:
    return {slot_of(pod) for pod in model.pods() if is_bound(pod)}


def accepted(model: Model) -> tuple[str, str]:
    [found] = [c for c in model.status()["conditions"] if c["type"] == "Accepted"]
    return found["status"], found["reason"]


def test_a_template_that_the_api_server_refuses_is_not_accepted_until_it_is_corrected(model: Model) -> None:
    model.cluster.refusal = InvalidObject('strict decoding error: unknown field "spec.containers[0].resource"')
    model.patch(suspend=False)
    pass_time(model, 60.0)
    status = model.status()
    assert accepted(model) == ("False", "InvalidTemplate")
    assert (status["reason"], status["message"]) == ("InvalidTemplate", str(model.cluster.refusal))
    assert model.pods() == []
    model.patch(suspend=True)
    pass_time(model, 1.0)
    model.cluster.refusal = None
    model.patch(suspend=False)
    pass_time(model, 1.0)
    assert len(model.pods()) == SLOTS
    assert (accepted(model), model.status().get("reason", "")) == (("True", "Valid"), "")


def test_a_refused_replacement_is_no_verdict_on_the_template(model: Model) -> None:
    """The API server accepted the template when the job began. A newer one may not."""
    model.patch(suspend=False)
    model.quiesce()
    for pod in model.pods():
        model.start_pod(pod)
    model.close_round()
    model.quiesce()
    model.cluster.refusal = InvalidObject("spec.containers[0].image: Required value")
    model.end_pod(model.pods()[0], exit_code=1)
    pass_time(model, 60.0)
    assert accepted(model) == ("True", "Valid")


def test_a_deleted_service_and_budget_are_created_again_within_the_hour(model: Model) -> None:
    model.patch(suspend=False)
    model.quiesce()
    for resource in (Resource.SERVICE, Resource.DISRUPTION_BUDGET):
        model.run(model.cluster.delete(resource, "default", "j"))
        assert model.cluster.objects(resource) == []
    model.now_s += SWEEP_S
    pass_time(model, 1.0)
    for resource in (Resource.SERVICE, Resource.DISRUPTION_BUDGET):
        assert len(model.cluster.objects(resource)) == 1

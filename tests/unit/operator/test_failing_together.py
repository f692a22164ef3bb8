"""Histories of pods that fail at the same time: they count once, and each slot keeps its last failed pod."""

from collections.abc import Iterator
from typing import Any

import pytest

from elasticjob_operator.model.objects import is_terminating, name_of, pod_phase
from elasticjob_operator.policy.slots.retained_pods import MAX_RETAINED
from tests.unit.operator.cluster_model import Model, is_bound, is_live, slot_of

SLOTS = 20


@pytest.fixture
def model() -> Iterator[Model]:
    model = Model(replicas=SLOTS, minReplicas=2, maxReplicas=SLOTS, backoffLimit=2)
    model.quiesce()
    run(model)
    yield model
    model.close()


def run(model: Model) -> None:
    """Let all pods run in a round for some time."""
    for pod in model.pods():
        if is_live(pod) and not is_bound(pod):
            model.start_pod(pod)
    model.close_round()
    model.quiesce()
    model.now_s += 5.0


def live(model: Model) -> dict[int, Any]:
    return {slot_of(pod): pod for pod in model.pods() if is_live(pod)}


def fail(model: Model, *slots: int, **how: Any) -> None:
    pods = live(model)
    for slot in slots:
        model.end_pod(pods[slot], **{"exit_code": 1, **how})


def failed_pods(model: Model) -> list[str]:
    return [name_of(pod) for pod in model.pods() if pod_phase(pod) == "Failed" and not is_terminating(pod)]


def test_eight_pods_that_fail_together_are_replaced_and_count_once(model: Model) -> None:
    fail(model, *range(8))
    model.quiesce()
    assert (len(live(model)), model.status()["podReplacements"]) == (SLOTS, 1)
    assert model.status()["phase"] != "Failed"


def test_pods_that_fail_a_moment_later_are_in_the_same_batch_even_for_a_new_process(model: Model) -> None:
    fail(model, *range(4))
    model.quiesce()
    model.crash(land=[])
    model.now_s += 3.0
    fail(model, *range(4, 12))
    model.quiesce()
    model.now_s += 3.0
    fail(model, *range(12, 16))
    model.quiesce()
    assert (len(live(model)), model.status()["podReplacements"]) == (SLOTS, 1)


def test_a_job_whose_pods_fail_again_and_again_still_ends(model: Model) -> None:
    for _ in range(2):
        fail(model, *range(SLOTS))
        model.quiesce()
        run(model)
    assert model.status()["podReplacements"] == 2
    fail(model, *range(SLOTS))
    model.quiesce()
    status = model.status()
    assert (status["phase"], status["reason"]) == ("Failed", "BackoffLimitExceeded")
    assert status["message"].startswith("3 pod failures, more than backoffLimit (2); the last: ")


def test_an_eviction_at_the_same_time_does_not_excuse_a_failure(model: Model) -> None:
    fail(model, 0, disrupted=True)
    model.quiesce()
    fail(model, 1)
    model.quiesce()
    assert model.status()["podReplacements"] == 1


def test_the_last_failed_pod_of_a_slot_remains_until_another_fails(model: Model) -> None:
    first = name_of(live(model)[3])
    fail(model, 3)
    model.quiesce()
    assert failed_pods(model) == [first]
    run(model)
    assert (model.status()["replicas"], len(model.named())) == (SLOTS, SLOTS)
    second = name_of(live(model)[3])
    fail(model, 3)
    model.quiesce()
    assert failed_pods(model) == [second]


def test_only_a_few_of_many_failed_pods_remain(model: Model) -> None:
    fail(model, *range(SLOTS))
    model.quiesce()
    assert len(failed_pods(model)) == MAX_RETAINED


def test_retained_pods_are_deleted_with_a_suspension_and_with_the_job(model: Model) -> None:
    fail(model, 3)
    model.quiesce()
    model.patch(suspend=True)
    model.quiesce()
    assert failed_pods(model) == []
    model.patch(suspend=False)
    model.quiesce()
    run(model)
    fail(model, 3)
    model.quiesce()
    assert len(failed_pods(model)) == 1
    model.delete_job()
    model.quiesce()
    assert failed_pods(model) == []

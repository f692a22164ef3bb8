"""Histories that broke simpler operators, one by one: each names the rule that it holds.

The same model as the state machine's, in an order that chance rarely finds.
"""

from collections.abc import Iterator

import pytest

from elasticjob_api.world import State
from elasticjob_operator.cluster.objects import name_of
from elasticjob_operator.cluster.protocol import Resource
from tests.unit.operator.model import Model, is_live


@pytest.fixture
def model() -> Iterator[Model]:
    model = Model(replicas=2, minReplicas=1, maxReplicas=3, backoffLimit=2)
    yield model
    model.close()


def answer_until(model: Model, what: str) -> int:
    """Take turns and answer requests up to the first that begins with `what`; its place at the gate."""
    for _ in range(50):
        for index, held in enumerate(model.process.gate.held):
            if held.what.startswith(what):
                return index
        if model.process.turn is None:
            model.begin_turn()
        else:
            model.answer(0)
    raise AssertionError(f"no request begins with {what!r}")


def running(model: Model) -> None:
    model.quiesce()
    for pod in model.pods():
        model.start_pod(pod)
    model.close_round()
    model.quiesce()


def live_names(model: Model) -> set[str]:
    return {name_of(pod) for pod in model.pods() if is_live(pod)}


def test_a_spec_write_of_a_dead_operator_that_lands_late_changes_nothing(model: Model) -> None:
    answer_until(model, "txn spec")
    model.crash(land=[True])
    model.quiesce_without_landing()
    before = model.spec()
    model.land(0)
    assert model.spec() == before


def test_a_first_spec_that_lands_late_is_the_map_of_the_next_operator_under_new_names(model: Model) -> None:
    answer_until(model, "txn spec")
    model.crash(land=[True])
    model.land(0)
    written = model.named()
    model.quiesce()
    assert live_names(model) == model.named()
    assert not written & model.named()


def test_a_name_is_not_created_again_after_its_answer_was_lost_and_its_pod_went(model: Model) -> None:
    index = answer_until(model, "create pods")
    model.answer(index, lose_answer=True)
    (pod,) = model.pods()
    model.delete_pod(pod)
    model.finish_turn()
    for _ in range(5):  # no event of this pod has come through the watch yet
        model.begin_turn()
        model.finish_turn()
    model.quiesce()
    assert model.cluster.created[name_of(pod)] == 1
    assert live_names(model) == model.named()


def test_a_pod_that_a_dead_operator_creates_late_is_deleted(model: Model) -> None:
    answer_until(model, "create pods")
    model.crash(land=[True, True])
    model.quiesce_without_landing()
    named = model.named()
    while model.in_flight:
        model.land(0)
    assert live_names(model) > named
    model.quiesce()
    assert live_names(model) == model.named() == named


def test_a_pod_that_a_late_request_creates_for_a_suspended_job_is_deleted(model: Model) -> None:
    answer_until(model, "create pods")
    model.crash(land=[True, True])
    model.patch(suspend=True)
    model.quiesce()
    assert not model.pods()


def test_a_failed_pod_counts_once_though_the_operator_dies_right_after_dropping_it(model: Model) -> None:
    running(model)
    failed = model.pods()[0]
    model.end_pod(failed, exit_code=1)
    model.process.deliver(Resource.POD)
    model.answer(answer_until(model, "txn spec"), lose_answer=True)
    assert name_of(failed) not in model.named()
    model.crash(land=[])
    model.quiesce()
    spec = model.spec()
    assert spec is not None
    assert spec.replacements == 1


def test_suspending_a_job_whose_members_have_all_finished_ends_it_well(model: Model) -> None:
    running(model)
    model.finish_all()
    model.patch(suspend=True)
    model.quiesce()
    ended = model.world()
    assert ended is not None
    assert ended.state is State.SUCCEEDED
    assert model.status()["phase"] == "Succeeded"


def test_a_first_spec_is_not_written_for_a_job_that_was_deleted_meanwhile(model: Model) -> None:
    answer_until(model, "get j")
    model.delete_job()
    model.quiesce()
    assert model.store.get(model.keys.spec) is None


def test_an_operator_whose_pod_watch_is_silent_replaces_nothing_that_lives(model: Model) -> None:
    running(model)
    before = live_names(model)
    model.crash(land=[], deliver_pods=False)
    for _ in range(5):
        model.begin_turn()
        model.finish_turn()
    assert live_names(model) == model.named() == before


def test_a_status_of_a_dead_operator_that_lands_late_is_corrected(model: Model) -> None:
    answer_until(model, "status")
    model.crash(land=[True])
    running_without_landing(model)
    assert model.status()["phase"] == "Running"
    model.land(0)
    assert model.status()["phase"] == "Pending"
    model.quiesce()
    assert model.status()["phase"] == "Running"


def running_without_landing(model: Model) -> None:
    model.quiesce_without_landing()
    for pod in model.pods():
        model.start_pod(pod)
    model.close_round()
    model.quiesce_without_landing()


def test_coming_to_rest_means_that_nothing_more_is_asked_for(model: Model) -> None:
    running(model)
    model.begin_turn()
    assert not model.process.gate.held

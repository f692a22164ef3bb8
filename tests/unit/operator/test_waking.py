"""The requeue time of a reconcile without changes: exactly when the next plan differs."""

from collections.abc import Iterator
from typing import Any

import pytest

from elasticjob_operator.controller.reconciler import SMALL_JOB, min_interval_s
from elasticjob_operator.policy.lifecycle.pod_cleanup import CLEANUP_MARGIN_S
from elasticjob_operator.policy.slots.expected import EXPECTED_FOR_S
from tests.unit.operator.cluster_model import Model

LONG_S = 100.0
assert LONG_S > EXPECTED_FOR_S


@pytest.fixture
def models() -> Iterator[list[Model]]:
    made: list[Model] = []
    yield made
    for model in made:
        model.close()


def at_rest(models: list[Model], *, runs: bool = True, **spec: Any) -> Model:
    """Return a model with a job of one node in which nothing more happens."""
    model = Model(replicas=1, **spec)
    models.append(model)
    model.quiesce()
    if runs:
        for pod in model.pods():
            model.start_pod(pod)
        model.close_round()
        model.quiesce()
    return model


def go_to(model: Model, at_s: float) -> None:
    """Advance the clock to this time."""
    model.now_s = at_s
    model.undisturbed_turn()


def answer(model: Model) -> float:
    """Return when the next reconcile is due after the last one."""
    assert model.process.again_at_s is not None
    return model.process.again_at_s


@pytest.mark.parametrize("field", ["activeDeadlineSeconds", "startupDeadlineSeconds"])
def test_the_requeue_time_is_the_deadline_and_the_job_ends_then_and_not_before(models: list[Model], field: str) -> None:
    model = at_rest(models, runs=field == "activeDeadlineSeconds", **{field: LONG_S})
    began_s = model.now_s
    while answer(model) < began_s + LONG_S - 10.0:  # a young pod is checked again when it is no longer young
        go_to(model, answer(model))
    deadline_s = answer(model)
    assert deadline_s == pytest.approx(began_s + LONG_S, abs=6.0)
    go_to(model, deadline_s - 0.5)
    assert model.status()["phase"] in {"Running", "Pending"}
    assert answer(model) == pytest.approx(deadline_s)
    go_to(model, deadline_s)
    model.catch_up()
    assert model.status()["phase"] == "Failed"


@pytest.mark.parametrize("later_s", [2 * LONG_S, None], ids=["extended", "removed"])
def test_a_deadline_may_be_extended_while_the_job_runs(models: list[Model], later_s: float | None) -> None:
    model = at_rest(models, activeDeadlineSeconds=LONG_S)
    began_s = model.now_s
    go_to(model, began_s + LONG_S - 10.0)
    model.patch(activeDeadlineSeconds=later_s)
    model.quiesce()
    go_to(model, began_s + LONG_S + 10.0)
    assert model.status()["phase"] == "Running"
    go_to(model, began_s + 2 * LONG_S + 10.0)
    model.catch_up()
    assert model.status()["phase"] == ("Running" if later_s is None else "Failed")


def test_an_ended_job_is_reconciled_when_its_pods_or_its_ttl_are_due(models: list[Model]) -> None:
    model = at_rest(models, ttlSecondsAfterFinished=300, cleanPodPolicy="All", gracefulShutdown={"seconds": 20})
    model.finish_member(0)
    model.quiesce()
    ended_s = model.now_s
    assert answer(model) == pytest.approx(ended_s + 20.0 + CLEANUP_MARGIN_S, abs=1.0)
    go_to(model, answer(model))
    for pod in model.pods():
        model.confirm_deletion(pod)
    model.catch_up()
    assert not model.pods()
    assert answer(model) == pytest.approx(ended_s + 300.0, abs=1.0)
    go_to(model, answer(model) - 0.5)
    assert model.job_object() is not None
    go_to(model, answer(model))
    assert model.job_object() is None


@pytest.mark.parametrize(
    ("nodes", "rests_s"), [(0, 0.0), (4, 0.0), (100, 0.0), (1100, 0.4), (2600, 1.0), (10_100, 2.0)]
)
def test_the_interval_between_reconciles_grows_with_the_job_and_is_zero_for_a_small_one(
    nodes: int, rests_s: float
) -> None:
    assert min_interval_s(nodes) == pytest.approx(rests_s)


def test_a_large_job_does_not_wait_while_its_own_write_of_the_map_is_undelivered(models: list[Model]) -> None:
    nodes = SMALL_JOB + 10
    model = Model(replicas=nodes)
    models.append(model)
    model.quiesce()
    assert model.process.reconciler.min_interval_s(model.key) == min_interval_s(nodes) > 0.0
    model.process.mirror_etcd.disconnect()
    model.patch(replicas=nodes + 1)
    model.undisturbed_turn()
    assert model.process.reconciler.min_interval_s(model.key) == 0.0
    model.quiesce()
    assert model.process.reconciler.min_interval_s(model.key) == min_interval_s(nodes + 1)

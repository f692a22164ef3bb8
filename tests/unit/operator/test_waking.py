"""What a turn answers when only time is to come: the very moment from which the next turn decides otherwise."""

from collections.abc import Iterator
from typing import Any

import pytest

from elasticjob_operator.policy.expected import EXPECTED_FOR_S
from elasticjob_operator.policy.finish import MARGIN_S
from tests.unit.operator.model import Model

LONG_S = 100.0
assert LONG_S > EXPECTED_FOR_S


@pytest.fixture
def models() -> Iterator[list[Model]]:
    made: list[Model] = []
    yield made
    for model in made:
        model.close()


def at_rest(models: list[Model], *, runs: bool = True, **spec: Any) -> Model:
    """A job of one node with which nothing more happens."""
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
    """Nothing but a clock that has come there."""
    model.now_s = at_s
    model.undisturbed_turn()


def answer(model: Model) -> float:
    """When the last turn wants the next."""
    assert model.process.again_at_s is not None
    return model.process.again_at_s


@pytest.mark.parametrize("field", ["activeDeadlineSeconds", "startupDeadlineSeconds"])
def test_a_deadline_is_the_answer_and_ends_the_job_at_that_moment_and_not_before(
    models: list[Model], field: str
) -> None:
    model = at_rest(models, runs=field == "activeDeadlineSeconds", **{field: LONG_S})
    began_s = model.now_s
    while answer(model) < began_s + LONG_S - 10.0:  # a young pod is looked at again when it is not young any more
        go_to(model, answer(model))
    deadline_s = answer(model)
    assert deadline_s == pytest.approx(began_s + LONG_S, abs=6.0)
    go_to(model, deadline_s - 0.5)
    assert model.status()["phase"] in {"Running", "Pending"}
    assert answer(model) == pytest.approx(deadline_s)
    go_to(model, deadline_s)
    model.catch_up()
    assert model.status()["phase"] == "Failed"


def test_an_ended_job_is_looked_at_when_its_pods_go_and_when_its_time_is_over(models: list[Model]) -> None:
    model = at_rest(models, ttlSecondsAfterFinished=300, cleanPodPolicy="All", gracefulShutdown={"seconds": 20})
    model.finish_member(0)
    model.quiesce()
    ended_s = model.now_s
    assert answer(model) == pytest.approx(ended_s + 20.0 + MARGIN_S, abs=1.0)
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

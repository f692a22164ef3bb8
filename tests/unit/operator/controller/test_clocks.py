"""Steps of the wall clock by an hour, back or forward, change no decision of the operator."""

from collections.abc import Iterator

import pytest

from elasticjob_operator.model.objects import name_of
from elasticjob_operator.policy.slots.replacement_backoff import FREE_REPLACEMENTS
from tests.unit.operator.cluster_model import Model, is_bound, is_live

HOUR_S = 3600.0


@pytest.fixture
def model() -> Iterator[Model]:
    """Return a model with a running job of two nodes."""
    made = Model(replicas=2, minReplicas=1, maxReplicas=3)
    made.quiesce()
    start_all(made)
    yield made
    made.close()


def start_all(model: Model) -> None:
    for pod in model.pods():
        if is_live(pod) and not is_bound(pod):
            model.start_pod(pod)
    model.close_round()
    model.quiesce()


def rest(model: Model) -> None:
    """Let the operator do everything that is due now, without advancing the time."""
    for _ in range(6):
        model.undisturbed_turn()


@pytest.mark.parametrize("step_s", [-HOUR_S, HOUR_S])
def test_the_status_is_written_at_once(model: Model, step_s: float) -> None:
    model.set_wall_clock(step_s)
    for index in range(2):
        model.finish_member(index)
    rest(model)
    assert model.status()["phase"] == "Succeeded"


@pytest.mark.parametrize("step_s", [-HOUR_S, HOUR_S])
def test_a_pod_without_an_agent_is_lost_only_after_its_time(model: Model, step_s: float) -> None:
    gone, _ = model.pods()
    model.expire(gone)
    model.undisturbed_turn()
    model.set_wall_clock(step_s)
    rest(model)
    assert name_of(gone) in {name_of(pod) for pod in model.pods() if is_live(pod)}
    model.now_s += 31.0  # lostPodTimeoutSeconds is 30
    model.undisturbed_turn()
    model.catch_up()
    assert name_of(gone) not in {name_of(pod) for pod in model.pods() if is_live(pod)}


@pytest.mark.parametrize("step_s", [-HOUR_S, HOUR_S])
def test_the_back_off_of_a_slot_is_as_long_as_without_the_step(model: Model, step_s: float) -> None:
    for _ in range(FREE_REPLACEMENTS + 2):
        start_all(model)
        model.delete_pod(next(pod for pod in model.pods() if is_live(pod)))
        rest(model)
    assert len([pod for pod in model.pods() if is_live(pod)]) == 1
    due_s = model.process.again_at_s
    assert due_s is not None
    model.set_wall_clock(step_s)
    model.undisturbed_turn()
    assert len([pod for pod in model.pods() if is_live(pod)]) == 1
    assert model.process.again_at_s == pytest.approx(due_s, abs=0.1)

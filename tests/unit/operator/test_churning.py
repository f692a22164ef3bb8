"""Histories of slots whose pods end again and again for reasons that do not count: no hot loop, and no failed job."""

from collections.abc import Iterator
from typing import Any

import pytest

from elasticjob_operator.policy.slots.replacement_backoff import FREE_REPLACEMENTS, REASON, STABLE_AFTER_S
from tests.unit.operator.cluster_model import Model, is_bound, is_live, slot_of

ENDINGS = ["evicted", "left", "deleted"]


@pytest.fixture
def model() -> Iterator[Model]:
    model = Model(replicas=2, minReplicas=1, maxReplicas=3, backoffLimit=0)
    model.quiesce()
    yield model
    model.close()


def live(model: Model, slot: int) -> Any:
    """Return the slot's live pod, or None."""
    return next((pod for pod in model.pods() if is_live(pod) and slot_of(pod) == slot), None)


def rest(model: Model) -> None:
    """Let the operator do everything that is due now, without advancing the time."""
    for _ in range(6):
        model.undisturbed_turn()


def run_all(model: Model) -> None:
    for pod in model.pods():
        if is_live(pod) and not is_bound(pod):
            model.start_pod(pod)
    model.close_round()
    rest(model)


def go(model: Model, slot: int, how: str) -> None:
    """End the slot's pod by a cause of the cluster, which does not count."""
    pod = live(model, slot)
    if how == "deleted":
        model.delete_pod(pod)
    else:
        model.end_pod(pod, exit_code=1 if how == "evicted" else 143, disrupted=how == "evicted")
    rest(model)


def lose(model: Model, slot: int, how: str) -> float:
    """End the slot's pod as soon as all run; return the seconds until the next one by the model's clock."""
    run_all(model)
    go(model, slot, how)
    began_s = model.now_s
    while live(model, slot) is None:
        assert model.process.again_at_s is not None
        model.now_s = model.process.again_at_s
        rest(model)
    for gone in [pod for pod in model.pods() if not is_live(pod)]:
        model.confirm_deletion(gone)
    return model.now_s - began_s


@pytest.mark.parametrize("how", ENDINGS)
def test_after_the_first_pods_each_replacement_waits_longer_and_none_counts(model: Model, how: str) -> None:
    waits = [lose(model, 0, how) for _ in range(FREE_REPLACEMENTS + 5)]
    assert waits == [0.0] * FREE_REPLACEMENTS + [1.0, 2.0, 4.0, 8.0, 16.0]
    run_all(model)
    assert (model.status()["podReplacements"], model.status()["phase"]) == (0, "Running")


def test_the_status_shows_a_waiting_slot_and_the_others_run(model: Model) -> None:
    for _ in range(FREE_REPLACEMENTS):
        lose(model, 0, "evicted")
    run_all(model)
    go(model, 0, "evicted")
    model.close_round()
    rest(model)
    status = model.status()
    assert (status["phase"], status["reason"], status["readyReplicas"]) == ("Running", REASON, 1)
    assert "it was deleted" not in status["message"]
    assert live(model, 0) is None
    assert live(model, 1) is not None


def test_a_new_process_continues_the_back_off_from_the_status(model: Model) -> None:
    for _ in range(FREE_REPLACEMENTS + 3):
        lose(model, 0, "evicted")
    run_all(model)
    go(model, 0, "evicted")
    model.close_round()
    rest(model)
    model.crash(land=[])
    rest(model)
    assert live(model, 0) is None
    model.quiesce()
    assert live(model, 0) is not None


def test_pods_of_different_slots_that_end_in_turn_do_not_wait(model: Model) -> None:
    model.patch(replicas=3)
    rest(model)
    assert [lose(model, turn % 3, "deleted") for turn in range(3 * FREE_REPLACEMENTS)] == [0.0] * 3 * FREE_REPLACEMENTS


def test_long_lived_pods_are_always_replaced_at_once(model: Model) -> None:
    for _ in range(3 * FREE_REPLACEMENTS):
        run_all(model)
        model.now_s += STABLE_AFTER_S
        assert lose(model, 0, "evicted") == 0.0


def test_scaling_up_and_down_makes_no_slot_wait(model: Model) -> None:
    for _ in range(3 * FREE_REPLACEMENTS):
        model.patch(replicas=3)
        rest(model)
        assert live(model, 2) is not None
        model.patch(replicas=1)
        rest(model)


def test_the_verdict_on_a_counted_pod_is_not_delayed(model: Model) -> None:
    for _ in range(FREE_REPLACEMENTS + 3):
        lose(model, 0, "evicted")
    run_all(model)
    model.end_pod(live(model, 0), exit_code=1)
    rest(model)
    assert model.status()["phase"] == "Failed"

"""Histories of jobs that are suspended, end or exceed a deadline while etcd does not answer the operator."""

from collections.abc import Iterator
from typing import Any

import pytest

from elasticjob_api.rendezvous_state import RoundPhase
from tests.unit.operator.cluster_model import Model, is_live


def begun(**spec: Any) -> Model:
    """Return a model in which two pods run in a round."""
    model = Model(**{"replicas": 2, "minReplicas": 1, "maxReplicas": 3, "backoffLimit": 0, **spec})
    model.quiesce()
    for pod in model.pods():
        model.start_pod(pod)
    model.close_round()
    model.quiesce()
    return model


@pytest.fixture
def model() -> Iterator[Model]:
    model = begun()
    yield model
    model.close()


def work(model: Model) -> None:
    """Let the operator do everything that it can do now."""
    for _ in range(6):
        model.undisturbed_turn()


def confirm(model: Model) -> None:
    for pod in [pod for pod in model.pods() if not is_live(pod)]:
        model.confirm_deletion(pod)


def conditions(model: Model) -> dict[str, str]:
    return {c["type"]: c["status"] for c in model.status()["conditions"]}


def state(model: Model) -> Any:
    found = model.state()
    assert found is not None
    return found


def come_back(model: Model) -> None:
    model.etcd_is_away(away=False)
    model.quiesce()


def test_a_job_is_suspended_while_etcd_is_away_and_its_state_follows(model: Model) -> None:
    model.etcd_is_away(away=True)
    model.patch(suspend=True)
    work(model)
    assert [is_live(pod) for pod in model.pods()] == [False, False]
    assert conditions(model)["Suspended"] == "False"
    confirm(model)
    work(model)
    assert (conditions(model)["Suspended"], conditions(model)["Running"]) == ("True", "False")
    assert (model.status()["phase"], model.status().get("readyReplicas", 0)) == ("Suspended", 0)
    assert model.status().get("startTime", "") == ""
    assert state(model).phase is RoundPhase.ACTIVE
    come_back(model)
    assert state(model).phase is RoundPhase.SUSPENDED
    assert model.named() == set()
    model.patch(suspend=False)
    model.quiesce()
    assert (len(model.pods()), model.status()["podReplacements"], model.status()["restarts"]) == (2, 0, 0)


def test_a_job_that_is_resumed_before_etcd_is_back_gets_new_pods_without_a_charge(model: Model) -> None:
    names = model.named()
    model.etcd_is_away(away=True)
    model.patch(suspend=True)
    work(model)
    confirm(model)
    work(model)
    model.patch(suspend=False)
    work(model)
    assert (model.pods(), conditions(model)["Suspended"]) == ([], "False")
    assert model.status()["phase"] == "Pending"
    come_back(model)
    assert len([pod for pod in model.pods() if is_live(pod)]) == 2
    assert model.named().isdisjoint(names)
    assert (model.status()["podReplacements"], model.status()["restarts"]) == (0, 0)


def test_a_new_process_suspends_a_job_although_etcd_never_answered_it(model: Model) -> None:
    model.crash(land=[])
    model.etcd_is_away(away=True)
    model.patch(suspend=True)
    work(model)
    assert not [pod for pod in model.pods() if is_live(pod)]


def test_an_outage_alone_causes_no_action(model: Model) -> None:
    model.etcd_is_away(away=True)
    before = model.pods()
    model.now_s += 10_000.0
    model.patch(replicas=3)
    work(model)
    assert model.pods() == before
    assert conditions(model)["Running"] == "True"


def test_a_deadline_ends_a_job_while_etcd_is_away_and_its_state_follows() -> None:
    model = begun(activeDeadlineSeconds=100, gracefulShutdown={"seconds": 5})
    try:
        model.etcd_is_away(away=True)
        work(model)
        assert model.process.again_at_s is not None
        model.now_s = model.process.again_at_s
        work(model)
        status = model.status()
        assert (status["phase"], status["reason"]) == ("Failed", "DeadlineExceeded")
        assert (bool(status["completionTime"]), conditions(model)["Running"]) == (True, "False")
        assert [is_live(pod) for pod in model.pods()] == [True, True]  # agents get time to end
        model.now_s += 15.0
        work(model)
        assert [is_live(pod) for pod in model.pods()] == [False, False]
        come_back(model)
        assert (state(model).phase, state(model).message.partition(":")[0]) == (RoundPhase.FAILED, "DeadlineExceeded")
        assert (model.named(), model.status()["completionTime"]) == (set(), status["completionTime"])
    finally:
        model.close()


def test_a_deadline_does_not_fail_a_job_whose_pods_have_ended_in_time() -> None:
    """The job may have succeeded, and only etcd has that record."""
    model = begun(activeDeadlineSeconds=100)
    try:
        model.etcd_is_away(away=True)
        for pod in model.pods():
            model.end_pod(pod, exit_code=0)
        model.now_s += 200.0
        work(model)
        assert conditions(model).get("Failed") == "False"
    finally:
        model.close()


@pytest.mark.parametrize(("policy", "left"), [("Running", 0), ("All", 0), ("None", 2)])
def test_pods_of_an_ended_job_are_cleaned_up_while_etcd_is_away(policy: str, left: int) -> None:
    model = begun(cleanPodPolicy=policy, gracefulShutdown={"seconds": 5})
    try:
        model.finish_member(0)
        model.finish_member(1)
        model.quiesce()
        assert model.status()["phase"] == "Succeeded"
        model.etcd_is_away(away=True)
        model.now_s += 60.0
        work(model)
        assert len([pod for pod in model.pods() if is_live(pod)]) == left
    finally:
        model.close()


def test_the_ttl_of_an_ended_job_expires_while_etcd_is_away() -> None:
    model = begun(ttlSecondsAfterFinished=30)
    try:
        model.finish_member(0)
        model.finish_member(1)
        model.quiesce()
        model.etcd_is_away(away=True)
        model.now_s += 31.0
        work(model)
        assert model.job_object() is None
        confirm(model)
        come_back(model)
        assert not model.store.range(model.keys.everything).kvs
    finally:
        model.close()

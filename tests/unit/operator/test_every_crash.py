"""The operator dies around each single request of a job's whole life: the end is the same, at the same price.

One story, told as often as it has requests (by night three times for each): the process ends before the request,
after it without having heard the answer, or with the request landing when another process has long been at work.
"""

import os
from typing import Any

import pytest

from elasticjob_operator.model.objects import is_terminating, name_of
from tests.unit.operator import expected_status
from tests.unit.operator.cluster_model import Model, is_bound, is_live

HOWS = ("before", "after", "later")
NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"


class DyingModel(Model):
    """The operator dies at one request, counted over all of its lives."""

    def __init__(self, *, dies_at: int, how: str) -> None:
        self.requests = 0
        self.dies_at = dies_at
        self.how = how
        super().__init__(replicas=2, minReplicas=1, maxReplicas=3, backoffLimit=3)

    def answer(self, index: int, *, lose_answer: bool = False) -> None:
        self.requests += 1
        if self.requests != self.dies_at:
            super().answer(index, lose_answer=lose_answer)
            return
        if self.how == "after":
            super().answer(index, lose_answer=True)
        self.crash(land=[self.how == "later"])

    # The story.

    def tell(self) -> dict[str, Any]:
        """Start, lose a pod, grow, suspend, go on, shrink; how it stands then, and after the job's deletion."""
        self.rest()
        self.all_run()
        self.end_pod(self.a_live_pod(), exit_code=1)
        self.rest()
        self.all_run()
        self.patch(replicas=3)
        self.rest()
        self.all_run()
        self.patch(suspend=True)
        self.rest()
        self.patch(suspend=False)
        self.rest()
        self.all_run()
        self.patch(replicas=1)
        self.rest()
        self.close_round()
        self.rest()
        told = self.standing()
        self.delete_job()
        self.rest()
        return told | {"left": (self.pods(), list(self.store.range(self.keys.everything).kvs))}

    def rest(self) -> None:
        """Kubelets confirm, late requests land, and the operator comes to rest, with a status that is true."""
        for _ in range(2):
            self.quiesce()
            for pod in self.pods():
                if is_terminating(pod):
                    self.confirm_deletion(pod)
        self.quiesce()
        expected_status.check(self)

    def all_run(self) -> None:
        for pod in self.pods():
            if is_live(pod) and not is_bound(pod):
                self.start_pod(pod)
        self.close_round()
        self.rest()

    def a_live_pod(self) -> Any:
        return next(pod for pod in self.pods() if is_live(pod) and name_of(pod) in self.named())

    def standing(self) -> dict[str, Any]:
        """What must not depend on who died when; names and uids do."""
        status, world, spec = self.status(), self.world(), self.spec()
        assert spec is not None
        assert world is not None
        assert {name_of(pod) for pod in self.pods() if is_live(pod)} == self.named()
        assert set(self.cluster.created.values()) == {1}
        counts = ("restarts", "nodeLosses", "podReplacements", "rendezvousRound", "worldSize", "workerStates")
        return {
            "phase": status["phase"],
            "round": world.round,
            "state": world.state,
            "slots": sorted(spec.slots),
            **{name: status[name] for name in counts},
        }


def told(*, dies_at: int = 0, how: str = "") -> tuple[dict[str, Any], int]:
    model = DyingModel(dies_at=dies_at, how=how)
    try:
        return model.tell(), model.requests
    finally:
        model.close()


def test_the_story_ends_as_it_should_without_any_crash() -> None:
    end, requests = told()
    assert (end["phase"], end["slots"], end["podReplacements"], end["left"]) == ("Running", ["0000"], 1, ([], []))
    assert requests > 40


@pytest.mark.parametrize("how", HOWS)
def test_a_crash_around_any_single_request_changes_nothing_of_the_end(how: str) -> None:
    expected, requests = told()
    # By day each request dies in one way, by night in all three.
    moments = range(1, requests + 1) if NIGHTLY else range(1 + HOWS.index(how), requests + 1, len(HOWS))
    odd = {at: end for at in moments if (end := told(dies_at=at, how=how)[0]) != expected}
    assert not odd

"""The operator crashes around each single request of a job's whole life: the outcome and its cost do not change.

One history runs once for each of its requests (three times in the nightly run). The process ends before the request, or
after it without a response. Or the request takes effect when another process is at work.
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
    """The operator ends at one request, counted over all of its processes."""

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

    # The history.

    def run_history(self) -> dict[str, Any]:
        """Start, lose a pod, grow, suspend, resume, shrink; return the outcome, before and after the job's deletion."""
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
        history_with_crash = self.outcome()
        self.delete_job()
        self.rest()
        return history_with_crash | {"left": (self.pods(), list(self.store.range(self.keys.everything).kvs))}

    def rest(self) -> None:
        """Deliver everything until the operator has nothing to do; its status must then be correct."""
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

    def outcome(self) -> dict[str, Any]:
        """Return the parts of the outcome that no crash may change; names and uids may."""
        status, state, spec = self.status(), self.state(), self.spec()
        assert spec is not None
        assert state is not None
        assert {name_of(pod) for pod in self.pods() if is_live(pod)} == self.named()
        assert set(self.cluster.created.values()) == {1}
        counts = ("restarts", "nodeLosses", "podReplacements", "rendezvousRound", "worldSize", "workerStates")
        return {
            "phase": status["phase"],
            "round": state.round,
            "state": state.phase,
            "slots": sorted(spec.slots),
            **{name: status[name] for name in counts},
        }


def history_with_crash(*, dies_at: int = 0, how: str = "") -> tuple[dict[str, Any], int]:
    model = DyingModel(dies_at=dies_at, how=how)
    try:
        return model.run_history(), model.requests
    finally:
        model.close()


def test_without_a_crash_the_history_has_the_expected_end() -> None:
    end, requests = history_with_crash()
    assert (end["phase"], end["slots"], end["podReplacements"], end["left"]) == ("Running", [0], 1, ([], []))
    assert requests > 40


@pytest.mark.parametrize("how", HOWS)
def test_a_crash_around_any_single_request_does_not_change_the_outcome(how: str) -> None:
    expected, requests = history_with_crash()
    # The default run crashes each request in one way, the nightly run in all three.
    moments = range(1, requests + 1) if NIGHTLY else range(1 + HOWS.index(how), requests + 1, len(HOWS))
    odd = {at: end for at in moments if (end := history_with_crash(dies_at=at, how=how)[0]) != expected}
    assert not odd

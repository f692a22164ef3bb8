"""The operator is SIGKILLed at random times of random histories: each job reaches the same end.

Ten histories run at the same time with one operator, which is killed after each step; the nightly run has twenty times
ten. A busy machine makes all of it slow. So the test waits for progress, and fails when nothing changes any more.
"""

import random
import threading
import time
from collections.abc import Callable

import pytest

from testing.kube.stack import KubeStack
from tests.integration.kube.histories import STEPS, History

pytestmark = pytest.mark.kube

AT_ONCE = 10
_LATEST_S = 0.6
_STILL_S = 60.0
"""Seconds without any change: longer than any back-off or start of the operator on a busy machine."""


def killed_meanwhile(rig: KubeStack, act: Callable[[], None], *, after_s: float) -> None:
    """Kill the operator that long after `act` has begun, and start another after it."""
    strike = threading.Timer(after_s, rig.kill_operator)
    strike.start()
    try:
        act()
    finally:
        strike.join()
    rig.start_operator()


class Progress:
    """The progress of the histories; a job need not be in its expected state while anything changes."""

    def __init__(self, rig: KubeStack, jobs: list[History]) -> None:
        self._rig = rig
        self._jobs = jobs
        self._seen: list[object] = []
        self._moved_s = time.monotonic()

    def settled(self) -> bool:
        """Return whether all jobs are in their expected states, or nothing has changed for long."""
        self._collect()
        now = [job.standing() for job in self._jobs]
        if now != self._seen:
            self._seen, self._moved_s = list(now), time.monotonic()
        return not self.wrong() or time.monotonic() - self._moved_s > _STILL_S

    def _collect(self) -> None:
        """Complete the deletion of unscheduled pods that a killed client began, as Kubernetes' controller does.

        The API server deletes such a pod in two writes, and stops between them if the client's connection ends.
        """
        for pod in self._rig.pods():
            if "deletionTimestamp" in pod["metadata"] and "nodeName" not in pod["spec"]:
                self._rig.forget_pod(pod["metadata"]["name"])

    def wrong(self) -> list[str]:
        """Return the jobs that were not in their expected states at the last check."""
        found = zip(self._jobs, self._seen, strict=True)
        return [f"{job.name} after {job.told}: {is_}, not {job.expected}" for job, is_ in found if is_ != job.expected]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(1, 20))])
def test_jobs_reach_the_same_state_as_without_a_kill(rig: KubeStack, seed: int) -> None:
    rng = random.Random(seed)
    jobs = [History(rig, f"j{n}", random.Random(f"{seed}/{n}")) for n in range(AT_ONCE)]
    rig.start_operator()

    def all_begin() -> None:
        for job in jobs:
            job.begin()

    def all_step() -> None:
        for job in jobs:
            job.step()

    for act in (all_begin, *[all_step] * STEPS):
        killed_meanwhile(rig, act, after_s=rng.uniform(0.0, _LATEST_S))
        standing = Progress(rig, jobs)
        rig.until("every job stands, or nothing moves", standing.settled, within_s=600.0)
        assert not standing.wrong()

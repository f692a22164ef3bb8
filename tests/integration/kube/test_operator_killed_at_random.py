"""The operator is SIGKILLed at random moments of random histories: each job comes to the end that it would have had.

Ten histories go on side by side under one operator, which dies after each of their steps; by night twenty times ten.
A machine at work makes all of it slow, so what is waited for is progress: the test fails when nothing moves any more.
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
"""Nothing moves for longer than any back-off of the operator's, and its start, on a machine with others at work."""


def killed_meanwhile(rig: KubeStack, act: Callable[[], None], *, after_s: float) -> None:
    """The operator dies so long after `act` has begun, and another one starts when that is over."""
    strike = threading.Timer(after_s, rig.kill_operator)
    strike.start()
    try:
        act()
    finally:
        strike.join()
    rig.start_operator()


class Standing:
    """How far the histories have come; not to stand yet is fine for as long as something moves."""

    def __init__(self, rig: KubeStack, jobs: list[History]) -> None:
        self._rig = rig
        self._jobs = jobs
        self._seen: list[object] = []
        self._moved_s = time.monotonic()

    def settled(self) -> bool:
        """All stand as they should, or nothing has moved for long."""
        self._collect()
        now = [job.standing() for job in self._jobs]
        if now != self._seen:
            self._seen, self._moved_s = list(now), time.monotonic()
        return not self.wrong() or time.monotonic() - self._moved_s > _STILL_S

    def _collect(self) -> None:
        """As Kubernetes' controller does: a pod on no node, of which a dead client has asked only half the deletion.

        The API server deletes such a pod in two writes, and ends between them with the connection of whoever asked.
        """
        for pod in self._rig.pods():
            if "deletionTimestamp" in pod["metadata"] and "nodeName" not in pod["spec"]:
                self._rig.forget_pod(pod["metadata"]["name"])

    def wrong(self) -> list[str]:
        """What stood otherwise when it was looked at last."""
        found = zip(self._jobs, self._seen, strict=True)
        return [f"{job.name} after {job.told}: {is_}, not {job.expected}" for job, is_ in found if is_ != job.expected]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(1, 20))])
def test_jobs_stand_as_without_any_death_of_the_operator(rig: KubeStack, seed: int) -> None:
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
        standing = Standing(rig, jobs)
        rig.until("every job stands, or nothing moves", standing.settled, within_s=600.0)
        assert not standing.wrong()

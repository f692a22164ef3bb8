"""The operator is SIGKILLed at random moments of random histories: each job comes to the end that it would have had.

Ten histories go on side by side under one operator, which dies after each of their steps; by night twenty times ten.
"""

import random
import threading
from collections.abc import Callable

import pytest

from tests.integration.kube.histories import STEPS, History
from tests.integration.kube.rig import Rig

pytestmark = pytest.mark.kube

AT_ONCE = 10
_LATEST_S = 0.6


def killed_meanwhile(rig: Rig, act: Callable[[], None], *, after_s: float) -> None:
    """The operator dies so long after `act` has begun, and another one starts when that is over."""
    strike = threading.Timer(after_s, rig.kill_operator)
    strike.start()
    try:
        act()
    finally:
        strike.join()
    rig.start_operator()


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(1, 20))])
def test_jobs_stand_as_without_any_death_of_the_operator(rig: Rig, seed: int) -> None:
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
        for job in jobs:
            what = f"{job.name} after {job.told} as {job.expected}"
            rig.until(what, job.stands, within_s=60.0)

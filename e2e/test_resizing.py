"""`kubectl scale` while the job runs: one round each way, nothing charged, and no step lost."""

import time
from collections.abc import Callable

import pytest

from e2e.manifests import digits, patient
from e2e.space import JOB, Space

pytestmark = pytest.mark.timeout(300)


def test_scaling_up_and_down_costs_one_round_each_and_no_step(
    space: Space, measured: Callable[[str, float], None]
) -> None:
    space.apply(patient(digits(epochs=30, replicas=2)))
    space.wait(phase="Running", worldSize=4)
    space.reached(60)
    scaled_at = _scale(space, 4)
    grown = space.wait(worldSize=8, phase="Running")
    measured("kubectl scale 2 -> 4 -> every worker of 4 pods started", space.running(2) - scaled_at)
    space.reached(150)
    scaled_at = _scale(space, 3)
    shrunk = space.wait(worldSize=6, phase="Running")
    measured("kubectl scale 4 -> 3 -> every worker of 3 pods started", space.running(3) - scaled_at)
    end = space.wait(phase="Succeeded")
    assert [status["rendezvousRound"] for status in (grown, shrunk, end)] == [2, 3, 3]
    assert [status["replicas"] for status in (grown, shrunk)] == [4, 3]
    assert (end["restarts"], end["nodeLosses"], end["podReplacements"]) == (0, 0, 0)
    verdicts = [text for _, text in space.log(end["masterPod"]) if "] proof: " in text]
    assert [text.endswith(": holds") for text in verdicts] == [True] * 4
    assert all(f"on {ranks} ranks" in verdicts[0] for ranks in (4, 8, 6))


def _scale(space: Space, replicas: int) -> float:
    """Run `kubectl scale`; return the time before."""
    moment = time.time()
    space.kubectl("scale", f"ejob/{JOB}", f"--replicas={replicas}")
    return moment

"""A suspended job has no pods and keeps its counts; after a resume it runs in new pods."""

import pytest

from e2e.manifests import digits, patient
from e2e.space import Space

pytestmark = pytest.mark.timeout(300)


def test_suspending_deletes_the_pods_and_resuming_makes_new_ones_uncharged(space: Space) -> None:
    space.apply(patient(digits(epochs=12)))
    first = space.wait(phase="Running", readyReplicas=3)
    space.suspend(value=True)
    space.wait(phase="Suspended", replicas=0)
    space.kubectl("wait", "pods", "--all", "--for=delete", "--timeout=60s")
    assert space.objects("pods") == []
    assert space.row()["PHASE"] == "Suspended"
    space.suspend(value=False)
    second = space.wait(phase="Running", readyReplicas=3)
    assert {node["podName"] for node in first["nodes"]}.isdisjoint(node["podName"] for node in second["nodes"])
    end = space.wait(phase="Succeeded")
    assert (end["restarts"], end["nodeLosses"], end["podReplacements"]) == (0, 0, 0)
    assert end["rendezvousRound"] == first["rendezvousRound"] + 1

"""A node fails: dead, frozen, cut off or drained. The job continues on the other one, and recovers without it.

Every job has one pod on each of the two nodes, and needs only one. The node returns at the end: its old processes must
not disturb the job.
"""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from e2e import nodes
from e2e.manifests import ENDLESS, digits, patient, spread
from e2e.space import KINDS, Space, pod_of
from testing.waiting import eventually

pytestmark = pytest.mark.timeout(300)

Measured = Callable[[str, float], None]


def _job() -> dict[str, Any]:
    spec = {"replicas": 2, "minReplicas": 1, "maxReplicas": 2, "lostPodTimeoutSeconds": 10}
    return spread(digits(epochs=ENDLESS, **spec))


def _start(space: Space, job: Mapping[str, Any]) -> dict[str, Any]:
    """Start two pods on two nodes, which train. Not always in round 1: the node may have returned a moment ago."""
    space.apply(job)
    first = space.wait(phase="Running", readyReplicas=2)
    space.reached(30)
    assert len(set(space.nodes(first))) == 2
    return first


def _end(space: Space, *gone: str) -> None:
    """Check that no process of the lost pods runs, and that nothing of the job is left when it is deleted."""

    def zombies() -> set[str]:
        """Return remaining pods; a failed one may remain for its log."""
        there = [pod for pod in space.pods() if pod["status"].get("phase") != "Failed"]
        return {pod["metadata"]["name"] for pod in there} & set(gone)

    eventually(lambda: not zombies(), within_s=90, what="no zombie")
    before = space.counts()
    space.reached_more()
    assert space.counts() == before
    space.delete_job()
    assert space.objects(KINDS) == []


@pytest.mark.parametrize("fault", [nodes.killed, nodes.frozen, nodes.cut_off], ids=["killed", "frozen", "cut off"])
def test_a_node_that_is(own_space: Space, measured: Measured, fault: Any) -> None:
    first = _start(own_space, _job())
    (stays, node), lost = own_space.nodes(first), pod_of(first, 1)
    name, round_ = fault.__name__.replace("_", " "), first["rendezvousRound"]
    with fault(own_space.cluster, node) as moment:
        own_space.wait(rendezvousRound=round_ + 1, readyReplicas=1)
        measured(f"node {name} -> every worker of the survivors started", own_space.running(round_ + 1) - moment)
        after = own_space.replaced(lost)
        measured(f"node {name} -> replaced, every worker started", own_space.running(round_ + 2) - moment)
        assert set(own_space.nodes(after)) == {stays}
    assert own_space.counts(after) == (round_ + 2, 0, 1)
    _end(own_space, lost)


def test_a_node_that_is_drained(own_space: Space, measured: Measured) -> None:
    first = _start(own_space, patient(_job()))
    (stays, node), lost = own_space.nodes(first), pod_of(first, 1)
    with nodes.drained(own_space.cluster, node) as moment:
        after = own_space.replaced(lost)
        started_at = own_space.running(after["rendezvousRound"])
        measured("kubectl drain -> replaced, every worker started", started_at - moment)
        assert set(own_space.nodes(after)) == {stays}
    assert own_space.counts(after) == (first["rendezvousRound"] + 1, 0, 0)
    _end(own_space, lost)

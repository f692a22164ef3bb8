"""There are not enough nodes for all pods: the job begins with fewer, reports the reason, and grows later."""

import time
from collections.abc import Callable

import pytest

from e2e import nodes
from e2e.manifests import ENDLESS, apart, digits
from e2e.space import JOB, KINDS, Space
from testing.waiting import eventually

pytestmark = pytest.mark.timeout(240)


def test_a_job_runs_with_the_nodes_that_there_are_and_grows_when_another_comes(
    own_space: Space, measured: Callable[[str, float], None]
) -> None:
    space, cluster = own_space, own_space.cluster
    _, late = cluster.workers()
    with nodes.cordoned(cluster, late):
        space.apply(apart(digits(epochs=ENDLESS, replicas=2, minReplicas=1, maxReplicas=2)))
        small = space.wait(phase="Running", readyReplicas=1)
        assert (space.counts(small), small["desiredReplicas"]) == ((1, 0, 0), 2)
        assert "Unschedulable" in eventually(lambda: _why(space), within_s=60, what="the reason is reported", pause_s=1)
        space.reached(30)
        came_at = time.time()
    grown = space.wait(readyReplicas=2, phase="Running")
    measured("a node takes pods again -> the job has grown, every worker started", space.running(2) - came_at)
    assert (space.counts(grown), grown["worldSize"]) == ((2, 0, 0), 4)
    assert late in space.nodes(grown)
    assert space.log(grown["masterPod"])[-1][1]
    space.delete_job()
    assert space.objects(KINDS) == []


def _why(space: Space) -> str:
    lines = space.kubectl("describe", "ejob", JOB).splitlines()
    return next((line for line in lines if "Unschedulable" in line), "")

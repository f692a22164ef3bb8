"""Pods of a job cannot reach etcd, and nothing else is affected: workers train, and no pod is deleted for it."""

import time
from collections.abc import Iterable
from typing import Any

import pytest

from e2e import nodes
from e2e.manifests import ENDLESS, digits, spread
from e2e.space import KINDS, Space
from testing.waiting import eventually

pytestmark = pytest.mark.timeout(400)

ETCD_PORT = 2379
LOST_POD_TIMEOUT_S = 10
VERDICTS = {"dropped": ("DROP",), "refused": ("REJECT", "--reject-with", "tcp-reset")}


def _start(space: Space, pods: int, **spec: Any) -> dict[str, Any]:
    space.apply(spread(digits(epochs=ENDLESS, replicas=pods, lostPodTimeoutSeconds=LOST_POD_TIMEOUT_S, **spec)))
    first = space.wait(phase="Running", readyReplicas=pods)
    space.reached(30)
    return first


def _places(space: Space, pods: Iterable[str]) -> dict[str, str]:
    """Return their nodes by their addresses."""
    wanted = set(pods)
    found = [pod for pod in space.pods() if pod["metadata"]["name"] in wanted]
    return {pod["status"]["podIP"]: pod["spec"]["nodeName"] for pod in found}


def _uids(space: Space) -> set[str]:
    return {pod["metadata"]["uid"] for pod in space.pods()}


def _passes(moment: float, seconds: float) -> None:
    """Wait until a pod would have been replaced if this time decided it."""
    eventually(lambda: time.time() > moment + seconds, within_s=2 * seconds, what=f"{seconds:g} s", pause_s=0.5)


def _are_unreachable(space: Space) -> bool:
    return space.condition("AgentsUnreachable").get("status") == "True"


@pytest.mark.nightly
@pytest.mark.parametrize("verdict", VERDICTS.values(), ids=VERDICTS)
def test_all_pods_of_a_job_are_cut_off_from_etcd_and_every_worker_trains_on(
    own_space: Space, verdict: tuple[str, ...]
) -> None:
    first = _start(own_space, 3, minReplicas=2)
    pods, workers = _uids(own_space), own_space.workers()
    with nodes.closed_to(_places(own_space, workers), ETCD_PORT, verdict) as moment:
        eventually(lambda: _are_unreachable(own_space), within_s=120, what="AgentsUnreachable", pause_s=0.5)
        unreachable = own_space.condition("AgentsUnreachable")
        eventually(lambda: own_space.status()["readyReplicas"] == 0, within_s=60, what="no ready replica", pause_s=0.5)
        _passes(moment, 4 * LOST_POD_TIMEOUT_S)
        own_space.reached_more()
        assert (_uids(own_space), own_space.workers()) == (pods, workers), unreachable
        assert _are_unreachable(own_space)
    eventually(lambda: not _are_unreachable(own_space), within_s=120, what="all agents are reachable", pause_s=0.5)
    after = own_space.wait(readyReplicas=3, phase="Running")
    own_space.reached_more()
    assert own_space.counts(after) == own_space.counts(first)
    assert (_uids(own_space), own_space.workers()) == (pods, workers)
    own_space.delete_job()
    assert own_space.objects(KINDS) == []


@pytest.mark.nightly
def test_half_of_the_pods_are_cut_off_from_etcd_the_others_go_on_and_none_is_deleted(own_space: Space) -> None:
    first = _start(own_space, 4, minReplicas=2)
    round_, pods = first["rendezvousRound"], _uids(own_space)
    cut = [node["podName"] for node in first["nodes"] if node.get("rank") in {2, 3}]
    with nodes.closed_to(_places(own_space, cut), ETCD_PORT, VERDICTS["dropped"]) as moment:
        own_space.wait(rendezvousRound=round_ + 1, readyReplicas=2)
        eventually(lambda: _are_unreachable(own_space), within_s=120, what="AgentsUnreachable", pause_s=0.5)
        _passes(moment, 4 * LOST_POD_TIMEOUT_S)
        own_space.reached_more()
        assert _uids(own_space) == pods
    own_space.wait(readyReplicas=4, phase="Running")
    own_space.reached_more()
    assert _uids(own_space) == pods
    assert own_space.counts()[1] == 0
    own_space.delete_job()
    assert own_space.objects(KINDS) == []

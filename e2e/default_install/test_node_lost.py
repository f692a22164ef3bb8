"""A node with a member of etcd, an operator and a pod of the job is lost: the job loses a round and nothing else."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from e2e import members, nodes, operators
from e2e.cluster import ETCD, SYSTEM, Cluster
from e2e.manifests import ENDLESS, digits, spread
from e2e.space import KINDS, Space, pod_of
from testing.waiting import eventually

pytestmark = pytest.mark.timeout(400)

Measured = Callable[[str, float], None]


def _start(space: Space) -> dict[str, Any]:
    """Start three pods on three nodes, which train; two of them suffice."""
    spec = {"replicas": 3, "minReplicas": 2, "maxReplicas": 3, "lostPodTimeoutSeconds": 10}
    space.apply(spread(digits(epochs=ENDLESS, **spec)))
    first = space.wait(phase="Running", readyReplicas=3)
    space.reached(30)
    assert len(set(space.nodes(first))) == 3
    return first


def _end(space: Space) -> None:
    before = space.counts()
    space.reached_more()
    assert space.counts() == before
    space.delete_job()
    assert space.objects(KINDS) == []


def _three_members(cluster: Cluster) -> None:
    eventually(lambda: members.leader(cluster), within_s=180, what="three members, one leads", pause_s=1)


def test_the_node_of_the_operators_leader_a_member_of_etcd_and_a_pod_of_the_job_is_killed(
    own_space: Space, default_cluster: Cluster, measured: Measured
) -> None:
    first = _start(own_space)
    led = operators.leader(default_cluster)
    lost = pod_of(first, own_space.nodes(first).index(led.node))
    round_ = first["rendezvousRound"]
    with nodes.killed(default_cluster, led.node) as moment:
        own_space.wait(rendezvousRound=round_ + 1, readyReplicas=2)
        measured("node killed -> every worker of the survivors started", own_space.running(round_ + 1) - moment)
        leads = operators.next_leader(default_cluster, led)
        measured("node of the operator's leader killed -> the other leads", leads.acquired_at - moment)
        after = own_space.replaced(lost)
        measured("node killed -> replaced, every worker started", own_space.running(round_ + 2) - moment)
        assert own_space.counts(after) == (round_ + 2, 0, 1)
        own_space.kill_worker(1)
        own_space.wait(restarts=1, rendezvousRound=round_ + 3, readyReplicas=3)
    _three_members(default_cluster)
    _end(own_space)


@pytest.mark.nightly
def test_the_node_of_etcds_leader_stays_away_and_its_member_is_replaced_elsewhere(
    own_space: Space, default_cluster: Cluster, measured: Measured
) -> None:
    first = _start(own_space)
    lead = members.leader(default_cluster)
    dead = _node_of(default_cluster, lead)
    lost = pod_of(first, own_space.nodes(first).index(dead))
    with nodes.killed(default_cluster, dead) as moment:
        own_space.wait(rendezvousRound=first["rendezvousRound"] + 1, readyReplicas=2)
        with nodes.out_of_service(default_cluster, dead):
            own_space.replaced(lost)
            _three_members(default_cluster)
            assert _node_of(default_cluster, lead) != dead
            measured("node killed, marked as out of service -> three members of etcd again", time.time() - moment)
            own_space.reached_more()
    _end(own_space)


@pytest.mark.nightly
def test_a_node_is_drained_and_the_job_goes_on(own_space: Space, default_cluster: Cluster, measured: Measured) -> None:
    first = _start(own_space)
    node = operators.leader(default_cluster).node
    lost = pod_of(first, own_space.nodes(first).index(node))
    with nodes.drained(default_cluster, node) as moment:
        after = own_space.replaced(lost)
        started_at = own_space.running(after["rendezvousRound"])
        measured("kubectl drain -> replaced, every worker started", started_at - moment)
        assert node not in own_space.nodes(after)
        default_cluster.kubectl("rollout", "status", "-n", SYSTEM, ETCD, "--timeout=150s")
        _three_members(default_cluster)
        assert own_space.counts()[1:] == (0, 0)
    _end(own_space)


def _node_of(cluster: Cluster, pod: str) -> str:
    return cluster.kubectl("get", "pod", "-n", SYSTEM, pod, "-o", "jsonpath={.spec.nodeName}")

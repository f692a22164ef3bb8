"""A controller of the jobs is lost: the operator, etcd, the API server. Workers train, and failures are recovered."""

import json
import time
from collections.abc import Callable

import pytest

from e2e.cluster import ETCD, OPERATOR, SYSTEM
from e2e.manifests import ENDLESS, digits, patient
from e2e.programs import run
from e2e.space import KINDS, Space
from testing.waiting import eventually

pytestmark = pytest.mark.timeout(300)

_ETCD_POD = "elasticjob-etcd-0"
_OUTAGE_S = 30.0


def test_without_an_operator_a_worker_that_dies_is_recovered_and_reported_later(own_space: Space) -> None:
    space, cluster = own_space, own_space.cluster
    space.apply(patient(digits(epochs=ENDLESS)))
    space.wait(phase="Running", readyReplicas=3)
    space.reached(30)
    master = space.status()["masterPod"]
    cluster.kubectl("scale", "-n", SYSTEM, OPERATOR, "--replicas=0")
    cluster.kubectl("wait", "-n", SYSTEM, "pods", "-l", "app.kubernetes.io/component=operator", "--for=delete")
    space.kill_worker(3)
    space.log(master, until="elasticjob-agent: round 2: .* are running")
    assert space.counts() == (1, 0, 0)
    cluster.kubectl("scale", "-n", SYSTEM, OPERATOR, "--replicas=2")
    after = space.wait(rendezvousRound=2, restarts=1, readyReplicas=3)
    assert (after["lastFailure"]["rank"], after["lastFailure"]["signal"]) == (3, "SIGKILL")
    assert len(space.pods()) == 3
    space.delete_job()
    assert space.objects(KINDS) == []


def test_etcd_is_killed_and_no_worker_notices(own_space: Space) -> None:
    space, cluster = own_space, own_space.cluster
    space.apply(patient(digits(epochs=ENDLESS)))
    first = space.wait(phase="Running", readyReplicas=3)
    space.reached(30)
    before = _etcd_restarts(space)
    run("docker", "exec", cluster.control_plane(), "pkill", "-KILL", "-f", "--", f"--name={_ETCD_POD}")
    eventually(lambda: _etcd_restarts(space) == before + 1, within_s=60, what="etcd restarted once, and ready")
    space.reached_more()
    after = space.status()
    assert space.counts(after) == (1, 0, 0)
    assert {node["podName"] for node in after["nodes"]} == {node["podName"] for node in first["nodes"]}
    space.kill_worker(1)
    assert space.counts(space.wait(restarts=1, rendezvousRound=2, readyReplicas=3)) == (2, 1, 0)
    space.delete_job()
    assert space.objects(KINDS) == []


@pytest.mark.nightly
def test_etcd_is_lost_with_all_its_data_and_no_failure_is_charged(own_space: Space) -> None:
    space, cluster = own_space, own_space.cluster
    space.apply(patient(digits(epochs=ENDLESS)))
    first = space.wait(phase="Running", readyReplicas=3)
    space.reached(30)
    cluster.kubectl("delete", "pod", "-n", SYSTEM, _ETCD_POD, "--force", "--grace-period=0")
    cluster.kubectl("rollout", "status", "-n", SYSTEM, ETCD, "--timeout=120s")
    # The agents remember everything: not even a round is lost.
    space.written_back(3)
    space.reached_more()
    assert space.counts() == (1, 0, 0)
    space.kill_worker(1)
    after = space.wait(restarts=1, rendezvousRound=2, readyReplicas=3)
    assert (*space.counts(after), after["podReplacements"]) == (2, 1, 0, 0)
    assert {node["podName"] for node in after["nodes"]} == {node["podName"] for node in first["nodes"]}
    space.delete_job()
    assert space.objects(KINDS) == []


def _etcd_restarts(space: Space) -> int:
    """Return the number of etcd's restarts; -1 while it is not ready."""
    restarts = "jsonpath={.status.containerStatuses[0].restartCount} {.status.containerStatuses[0].ready}"
    count, ready = space.cluster.kubectl("get", "pod", "-n", SYSTEM, _ETCD_POD, "-o", restarts).split()
    return int(count) if ready == "true" else -1


@pytest.mark.nightly
def test_the_api_server_is_suspended_for_30_s_and_a_worker_dies_meanwhile(
    own_space: Space, measured: Callable[[str, float], None]
) -> None:
    space, master_node = own_space, own_space.cluster.control_plane()
    space.apply(patient(digits(epochs=ENDLESS)))
    first = space.wait(phase="Running", readyReplicas=3)
    space.reached(30)
    node = space.nodes(first)[1]
    start = time.monotonic()
    run("docker", "exec", master_node, "pkill", "-STOP", "-x", "kube-apiserver")
    try:
        run(
            "docker",
            "exec",
            node,
            "sh",
            "-c",
            "kill -9 $(grep -lzx RANK=3 /proc/[0-9]*/environ | cut -d/ -f3 | head -n 1)",
        )
        killed_at = time.time()
        eventually(lambda: time.monotonic() > start + _OUTAGE_S, within_s=2 * _OUTAGE_S, what="the outage's end")
    finally:
        run("docker", "exec", master_node, "pkill", "-CONT", "-x", "kube-apiserver")
    after = space.wait(rendezvousRound=2, restarts=1, readyReplicas=3)
    took = space.running(2) - killed_at
    measured("worker SIGKILLed, no API server -> every worker started", took)
    assert took < _OUTAGE_S
    assert {n["podName"] for n in after["nodes"]} == {n["podName"] for n in first["nodes"]}
    space.delete_job()
    assert json.loads(space.kubectl("get", KINDS, "-o", "json"))["items"] == []

"""Pods without a connection to etcd while the operator has one: their workers train, and no pod is deleted."""

import time

import psutil
import pytest

from testing.kube.jobs import waiting_job
from testing.kube.stack import KubeStack
from testing.network.proxy import proxy

pytestmark = [pytest.mark.kube, pytest.mark.timeout(360)]

_LEASE_S = 8
_LOST_S = 6
"""Seconds for the other pods to return after the first one, even on a busy machine."""
_ROUND_S = 120.0
"""Seconds for the operator's next check (30 s) if the reachable half loses its leases on a busy machine."""


def agents_of(rig: KubeStack, node: int, pods: list[str]) -> set[int]:
    """Return the ancestors of these pods' workers, up to their node."""
    workers = [psutil.Process(pid) for pid, pod in rig.pids(rig.keys()).values() if pod in pods]
    above = ({parent.pid for parent in worker.parents()} for worker in workers)
    return set().union(*above) - {parent.pid for parent in psutil.Process(node).parents()} - {node}


def test_an_unreachable_half_of_the_pods_is_left_alone_while_the_others_form_a_round(rig: KubeStack) -> None:
    host, port = rig.etcd.targets[0].rsplit(":", 1)
    with proxy(host, int(port)) as way:
        node = rig.start_node()
        rig.start_operator("--pod-etcd-endpoints", way.endpoint)
        job = waiting_job(rig, replicas=4, minReplicas=1, maxReplicas=4)
        job["spec"] |= {"lostPodTimeoutSeconds": _LOST_S, "rendezvous": {"keepAliveSeconds": _LEASE_S}}
        rig.namespace.apply(job)
        rig.running(nodes=4, round_=1)
        pods = rig.pod_names()
        cut_off = pods[:2]
        way.refuse_processes(agents_of(rig, node.pid, cut_off))
        cut_at = time.monotonic()
        rig.until("AgentsUnreachable", lambda: rig.condition("AgentsUnreachable").get("status") == "True")
        rig.until(
            "a round of the others",
            lambda: rig.status()["rendezvousRound"] > 1 and is_running(rig, nodes=2),
            within_s=_ROUND_S,
        )
        members = {node["podName"] for node in rig.status()["nodes"] if node.get("rank") is not None}
        assert members == set(pods) - set(cut_off)
        rig.until("longer silent than a lost pod is", lambda: time.monotonic() > cut_at + 2 * (_LEASE_S + _LOST_S))
        way.refuse_processes(())
        rig.until("all of them are back", lambda: rig.status().get("readyReplicas") == 4, within_s=_ROUND_S)
        assert rig.pod_names() == pods
        assert "PodReplaced" not in [reason for reason, _ in rig.events()]
        rig.until("reachable", lambda: rig.condition("AgentsUnreachable").get("status") == "False")


def is_running(rig: KubeStack, *, nodes: int) -> bool:
    """Return whether a round of that many nodes runs."""
    return bool(rig.status()["readyReplicas"] == nodes and rig.condition("Running")["status"] == "True")


def test_pods_without_etcd_keep_their_workers_and_return_as_members(rig: KubeStack) -> None:
    host, port = rig.etcd.targets[0].rsplit(":", 1)
    with proxy(host, int(port)) as way:
        rig.start_node()
        rig.start_operator("--pod-etcd-endpoints", way.endpoint)
        job = waiting_job(rig, replicas=3, minReplicas=1, maxReplicas=3)
        job["spec"] |= {"lostPodTimeoutSeconds": _LOST_S, "rendezvous": {"keepAliveSeconds": 3}}
        rig.namespace.apply(job)
        rig.running(nodes=3, round_=1)
        pods = rig.pod_names()
        workers = [psutil.Process(pid) for pid, _ in rig.pids(rig.keys()).values()]
        way.refuse()
        cut_at = time.monotonic()
        rig.until("AgentsUnreachable", lambda: rig.condition("AgentsUnreachable").get("status") == "True")
        rig.until("no claim that nothing supports", lambda: rig.status().get("readyReplicas", 0) == 0)
        assert rig.condition("Running")["status"] == "Unknown"
        rig.until("longer silent than a lost pod is", lambda: time.monotonic() > cut_at + 2 * _LOST_S)
        way.restore()
        rig.until("all of them are back", lambda: rig.status().get("readyReplicas") == 3)
        assert rig.pod_names() == pods
        assert all(worker.is_running() for worker in workers)
        assert "PodReplaced" not in [reason for reason, _ in rig.events()]
        rig.until("reachable", lambda: rig.condition("AgentsUnreachable").get("status") == "False")

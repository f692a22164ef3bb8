"""Faults of a node: it dies, freezes, is cut off, is drained, is cordoned. Each is undone at the end.

A node of kind is a container of docker with the node's name. This module knows no jobs.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager

from e2e.cluster import Cluster
from e2e.programs import run

Act = Callable[[], object]

_READY = "--timeout=120s"
_WIRE = "eth0"
_CHAINS = (("INPUT", "-i"), ("OUTPUT", "-o"), ("FORWARD", "-i"), ("FORWARD", "-o"))


@contextmanager
def _until_the_end(cluster: Cluster, node: str, do: Act, undo: Act) -> Iterator[float]:
    """Do it to that node, and yield the time before. At the end undo it, and wait until the node is ready."""
    moment = time.time()
    do()
    try:
        yield moment
    finally:
        undo()
        cluster.kubectl("wait", "--for=condition=Ready", f"node/{node}", _READY)


def _by_docker(cluster: Cluster, node: str, do: str, undo: str) -> AbstractContextManager[float]:
    return _until_the_end(cluster, node, lambda: run("docker", do, node), lambda: run("docker", undo, node))


def killed(cluster: Cluster, node: str) -> AbstractContextManager[float]:
    """Power the node off; at the end power it on again."""
    return _by_docker(cluster, node, "kill", "start")


def frozen(cluster: Cluster, node: str) -> AbstractContextManager[float]:
    """Suspend all its processes; at the end they continue."""
    return _by_docker(cluster, node, "pause", "unpause")


def cut_off(cluster: Cluster, node: str) -> AbstractContextManager[float]:
    """Cut the node off from the network in both directions; its processes continue."""
    return _until_the_end(cluster, node, lambda: _wire(node, "-I"), lambda: _wire(node, "-D"))


@contextmanager
def closed_to(pods: Mapping[str, str], port: int, verdict: Sequence[str]) -> Iterator[float]:
    """Block these pods (their node, by address) from this port of others; their node and the rest are not affected."""
    moment = time.time()
    try:
        _ports(pods, port, "-I", verdict)
        yield moment
    finally:
        _ports(pods, port, "-D", verdict)


@contextmanager
def out_of_service(cluster: Cluster, node: str) -> Iterator[float]:
    """Mark the dead node as out of service, so that Kubernetes deletes its pods; at the end remove the mark."""
    moment = time.time()
    taint = "node.kubernetes.io/out-of-service"
    cluster.kubectl("taint", "node", node, f"{taint}=nodeshutdown:NoExecute")
    try:
        yield moment
    finally:
        cluster.kubectl("taint", "node", node, f"{taint}-")


@contextmanager
def drained(cluster: Cluster, node: str) -> Iterator[float]:
    """Run `kubectl drain` at the beginning; at the end the node takes pods again."""
    moment = time.time()
    options = ("--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=120s")
    try:
        cluster.kubectl("drain", node, *options)
        yield moment
    finally:
        cluster.kubectl("uncordon", node)


@contextmanager
def cordoned(cluster: Cluster, node: str) -> Iterator[None]:
    """Cordon the node; at the end uncordon it, unless it was cordoned before."""
    cluster.kubectl("cordon", node)
    try:
        yield
    finally:
        cluster.kubectl("uncordon", node)


def _ports(pods: Mapping[str, str], port: int, change: str, verdict: Sequence[str]) -> None:
    for address, node in pods.items():
        for end, side in (("-s", "--dport"), ("-d", "--sport")):
            rule = (end, address, "-p", "tcp", side, str(port), "-j", *verdict)
            run("docker", "exec", node, "iptables", "--wait", change, "FORWARD", *rule)


def _wire(node: str, change: str) -> None:
    for chain, direction in _CHAINS:
        run("docker", "exec", node, "iptables", "--wait", change, chain, direction, _WIRE, "-j", "DROP")

"""What happens to a node: it dies, freezes, is cut off, is emptied, takes no more. Each is undone at the end.

A node of kind is a container of docker, named as the node. Nothing here knows what a job is.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from e2e.cluster import Cluster
from e2e.programs import run

_READY = "--timeout=120s"
_WIRE = "eth0"
_CHAINS = (("INPUT", "-i"), ("OUTPUT", "-o"), ("FORWARD", "-i"), ("FORWARD", "-o"))


@contextmanager
def killed(cluster: Cluster, node: str) -> Iterator[float]:
    """The power is off; gives the moment before. At the end it is on again."""
    moment = time.time()
    run("docker", "kill", node)
    try:
        yield moment
    finally:
        run("docker", "start", node)
        _await_ready(cluster, node)


@contextmanager
def frozen(cluster: Cluster, node: str) -> Iterator[float]:
    """All its processes stand still; at the end they go on where they were."""
    moment = time.time()
    run("docker", "pause", node)
    try:
        yield moment
    finally:
        run("docker", "unpause", node)
        _await_ready(cluster, node)


@contextmanager
def cut_off(cluster: Cluster, node: str) -> Iterator[float]:
    """It hears nobody and nobody hears it; its processes go on."""
    moment = time.time()
    _wire(node, "-I")
    try:
        yield moment
    finally:
        _wire(node, "-D")
        _await_ready(cluster, node)


@contextmanager
def drained(cluster: Cluster, node: str) -> Iterator[float]:
    """`kubectl drain`, done when it begins; at the end it takes pods again."""
    moment = time.time()
    options = ("--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=120s")
    try:
        cluster.kubectl("drain", node, *options)
        yield moment
    finally:
        cluster.kubectl("uncordon", node)


@contextmanager
def cordoned(cluster: Cluster, node: str) -> Iterator[None]:
    """It takes no new pods; at the end it does, if it does not already."""
    cluster.kubectl("cordon", node)
    try:
        yield
    finally:
        cluster.kubectl("uncordon", node)


def _wire(node: str, change: str) -> None:
    for chain, direction in _CHAINS:
        run("docker", "exec", node, "iptables", "--wait", change, chain, direction, _WIRE, "-j", "DROP")


def _await_ready(cluster: Cluster, node: str) -> None:
    cluster.kubectl("wait", "--for=condition=Ready", f"node/{node}", _READY)

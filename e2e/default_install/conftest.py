"""Installs the chart's defaults for the tests of this folder: TLS, two operators, three members of etcd, not pinned.

The existing release is uninstalled first, and installed again at the end. Only the name of etcd's image is not the
default. The control plane takes no pods, so the release runs on the three workers, beside the jobs.
"""

from collections.abc import Callable, Iterator

import pytest

from e2e import members
from e2e.cluster import ETCD, JOB_IMAGES, OPERATOR, SYSTEM, SYSTEM_IMAGES, Cluster
from e2e.latencies import DEFAULT_INSTALL
from testing.waiting import eventually

Measured = Callable[[str, float], None]


@pytest.fixture(scope="session")
def measured(measured_on: Callable[[str], Measured]) -> Measured:
    """Return a recorder for the table of the default install."""
    return measured_on(DEFAULT_INSTALL)


@pytest.fixture(scope="package")
def default_cluster(cluster: Cluster, measured: Measured) -> Iterator[Cluster]:
    """Return the cluster with the chart's defaults on three workers."""
    cluster.uninstall()
    for image in SYSTEM_IMAGES:
        cluster.load(image, *cluster.all_workers())
    for image in JOB_IMAGES:
        cluster.load(image, cluster.spare())
    cluster.kubectl("uncordon", cluster.spare())
    try:
        cluster.install(pinned=False)
        measured("helm install -> ready", cluster.installed_s)
        yield cluster
    finally:
        cluster.kubectl("cordon", cluster.spare())
        cluster.uninstall()
        cluster.install()


@pytest.fixture(autouse=True)
def _all_is_well(default_cluster: Cluster) -> None:
    """Wait for three ready members and two ready operators before each test."""
    for workload in (OPERATOR, ETCD):
        default_cluster.kubectl("rollout", "status", "-n", SYSTEM, workload, "--timeout=150s")
    eventually(lambda: members.leader(default_cluster), within_s=120, what="three members, one leads", pause_s=1)

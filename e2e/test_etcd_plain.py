"""etcd without TLS: an existing release keeps its setting, also when the chart's default is another.

The release is reinstalled for this, and restored at the end.
"""

from collections.abc import Iterator

import pytest

from e2e.cluster import ETCD, RELEASE, SYSTEM, Cluster
from e2e.manifests import ENDLESS, digits, patient
from e2e.space import KINDS, Space

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def plain(cluster: Cluster) -> Iterator[Cluster]:
    """Install the release without certificates."""
    cluster.helm("uninstall", RELEASE, "--wait")
    try:
        cluster.install("etcd.tls.enabled=false")
        yield cluster
    finally:
        cluster.helm("uninstall", RELEASE, "--wait")
        cluster.install()


def test_the_releases_own_test_succeeds_without_a_certificate(plain: Cluster) -> None:
    assert "Phase:          Succeeded" in plain.helm("test", RELEASE)


def test_an_upgrade_with_the_default_takes_etcd_from_no_job(plain: Cluster, own_space: Space) -> None:
    own_space.apply(patient(digits(epochs=ENDLESS, replicas=2)))
    own_space.wait(phase="Running", readyReplicas=2)
    own_space.reached(15)
    plain.upgrade("operator.podAnnotations.upgraded=yes")
    assert "--listen-client-urls=http://" in plain.kubectl("get", "-n", SYSTEM, ETCD, "-o", "yaml")
    own_space.reached_more()
    own_space.kill_worker(3)
    assert own_space.counts(own_space.wait(restarts=1, readyReplicas=2)) == (2, 1, 0)
    own_space.delete_job()
    assert own_space.objects(KINDS) == []
    assert own_space.kubectl("get", "secrets", "-o", "name") == ""

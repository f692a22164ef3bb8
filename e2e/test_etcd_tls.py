"""etcd that lets nobody in without a certificate: a job runs, loses a pod and is whole again, as without.

The release is installed anew for this, and as it was before at the end.
"""

from collections.abc import Callable, Iterator

import pytest

from e2e.cluster import RELEASE, Cluster
from e2e.manifests import ENDLESS, digits, injected, patient
from e2e.space import JOB, KINDS, Space, pod_of

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def secured(cluster: Cluster) -> Iterator[Cluster]:
    """The release with certificates that the operator makes."""
    cluster.helm("uninstall", RELEASE, "--wait")
    try:
        cluster.install("etcd.tls.enabled=true")
        yield cluster
    finally:
        cluster.helm("uninstall", RELEASE, "--wait")
        cluster.install()


def test_the_releases_own_test_succeeds_with_a_certificate(secured: Cluster) -> None:
    assert "Phase:          Succeeded" in secured.helm("test", RELEASE)


def test_a_job_with_certificates_goes_through_a_deleted_pod_and_a_killed_worker(
    secured: Cluster, own_space: Space, measured: Callable[[str, float], None]
) -> None:
    assert secured
    own_space.apply(patient(injected(digits(epochs=ENDLESS))))
    first = own_space.wait(phase="Running", readyReplicas=3)
    own_space.reached(45)
    lost = pod_of(first, 1)
    deleted_at = own_space.delete_pod(lost)
    after = own_space.replaced(lost)
    measured(
        "with certificates: kubectl delete pod -> replaced, every worker started", own_space.running(2) - deleted_at
    )
    assert own_space.counts(after) == (2, 0, 0)
    killed_at = own_space.kill_worker(3)
    after = own_space.wait(restarts=1, rendezvousRound=3, readyReplicas=3)
    measured("with certificates: worker SIGKILLed -> every worker started", own_space.running(3) - killed_at)
    assert own_space.counts(after) == (3, 1, 0)
    own_space.kubectl("delete", "ejob", JOB)
    own_space.kubectl("wait", KINDS, "--all", "--for=delete", "--timeout=120s")
    assert own_space.kubectl("get", "secrets", "-o", "name") == ""

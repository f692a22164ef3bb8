"""The release while jobs run: tested, upgraded, taken away and brought back."""

from collections.abc import Callable

import pytest

from e2e.cluster import RELEASE, Cluster
from e2e.manifests import ENDLESS, digits
from e2e.space import KINDS, Space

pytestmark = pytest.mark.timeout(300)


def test_the_releases_own_test_succeeds(cluster: Cluster) -> None:
    assert "Phase:          Succeeded" in cluster.helm("test", RELEASE)


def test_an_upgrade_replaces_the_operator_and_touches_no_pod_of_a_job(own_space: Space) -> None:
    own_space.apply(digits(epochs=ENDLESS, replicas=2))
    own_space.wait(phase="Running", readyReplicas=2)
    own_space.reached(15)
    before = _uids(own_space)
    own_space.cluster.upgrade("operator.logFormat=json", "operator.podAnnotations.upgraded=yes")
    own_space.reached_more()
    assert (_uids(own_space), own_space.counts()) == (before, (1, 0, 0))
    own_space.kill_worker(3)
    assert own_space.counts(own_space.wait(restarts=1, readyReplicas=2)) == (2, 1, 0)
    own_space.delete_job()
    assert own_space.objects(KINDS) == []


@pytest.mark.nightly
def test_an_uninstalled_release_leaves_the_jobs_and_a_new_one_takes_them_over(
    own_space: Space, measured: Callable[[str, float], None]
) -> None:
    space, cluster = own_space, own_space.cluster
    space.apply(digits(epochs=ENDLESS, replicas=2))
    space.wait(phase="Running", readyReplicas=2)
    space.reached(15)
    cluster.helm("uninstall", RELEASE, "--wait")
    assert space.status()["restarts"] == 0
    cluster.install()
    measured("helm install -> ready", cluster.installed_s)
    # etcd was new: its first round is numbered far above those of which somebody may still know.
    assert space.wait(rendezvousRound=1001, readyReplicas=2)["restarts"] == 0
    space.delete_job()
    assert space.objects(KINDS) == []


def _uids(space: Space) -> set[str]:
    return {pod["metadata"]["uid"] for pod in space.pods()}

"""A release from before leases and three members is upgraded with a running job, rolled back, and upgraded again."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e import members, old_release
from e2e.cluster import ETCD, OPERATOR, RELEASE, SYSTEM, Cluster
from e2e.manifests import ENDLESS, digits, patient, trainer
from e2e.space import KINDS, Space, pod_of
from testing.waiting import eventually

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(900)]


@pytest.fixture
def old(default_cluster: Cluster, tmp_path: Path) -> Iterator[Cluster]:
    """Install the old release: one member of etcd, without certificates, and one operator."""
    chart = old_release.build(tmp_path)
    for image in (old_release.OPERATOR_IMAGE, old_release.DIGITS_IMAGE):
        default_cluster.load(image, *default_cluster.all_workers())
    default_cluster.uninstall()
    try:
        sets = [word for value in old_release.values() for word in ("--set", value)]
        default_cluster.helm("install", RELEASE, str(chart), "--take-ownership", *sets, "--wait", "--timeout", "120s")
        yield default_cluster
    finally:
        default_cluster.uninstall()
        default_cluster.install(pinned=False)


def test_an_old_release_is_upgraded_rolled_back_and_upgraded_and_no_pod_of_its_job_is_restarted(
    own_space: Space, old: Cluster
) -> None:
    manifest = patient(digits(epochs=ENDLESS, maxRestarts=9))
    trainer(manifest)["image"] = old_release.DIGITS_IMAGE
    own_space.apply(manifest)
    first = own_space.wait(phase="Running", readyReplicas=3)
    own_space.reached(30)
    before = _uids(own_space)

    old.install(pinned=False)
    _goes_on(own_space, before, restarts=1)
    assert own_space.status()["installation"]
    assert old.kubectl("get", "-n", SYSTEM, ETCD, "-o", "jsonpath={.spec.replicas}") == "1"

    old.helm("rollback", RELEASE, "1", "--wait", "--timeout", "120s")
    assert old_release.TAG in old.kubectl("get", "-n", SYSTEM, OPERATOR, "-o", "yaml")
    _goes_on(own_space, before, restarts=2)

    old.install(pinned=False)
    _goes_on(own_space, before, restarts=3)

    old.kubectl("delete", "-n", SYSTEM, ETCD)
    old.install("etcd.members=auto", pinned=False)
    eventually(lambda: members.leader(old), within_s=180, what="three members, one leads", pause_s=1)
    own_space.written_back(3)
    _goes_on(own_space, before, restarts=4)

    lost = pod_of(first, 2)
    own_space.delete_pod(lost)
    after = own_space.replaced(lost)
    assert own_space.counts(after)[1:] == (4, 0)
    own_space.delete_job()
    assert own_space.objects(KINDS) == []


def _goes_on(space: Space, pods: set[str], *, restarts: int) -> None:
    """Check that the job trains in the same pods, one round a restart; one more worker dies and is recovered."""
    space.reached_more()
    assert (_uids(space), space.counts()) == (pods, (restarts, restarts - 1, 0))
    space.kill_worker(1)
    after = space.wait(restarts=restarts, rendezvousRound=restarts + 1, readyReplicas=3)
    assert (_uids(space), space.counts(after)) == (pods, (restarts + 1, restarts, 0))


def _uids(space: Space) -> set[str]:
    return {pod["metadata"]["uid"] for pod in space.pods()}

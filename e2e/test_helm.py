"""The release while jobs run: tested, upgraded, uninstalled and reinstalled."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster import CHART, OPERATOR, OPERATOR_IMAGE, RELEASE, SYSTEM, Cluster
from e2e.manifests import ENDLESS, digits, patient, trainer
from e2e.programs import run
from e2e.space import KINDS, Space

pytestmark = pytest.mark.timeout(400)

MANY = 20
"""Jobs that run during an upgrade."""


def test_the_releases_own_test_succeeds(cluster: Cluster) -> None:
    assert "Phase:          Succeeded" in cluster.helm("test", RELEASE)


def test_an_upgrade_replaces_the_operator_and_touches_no_pod_of_a_job(own_space: Space) -> None:
    own_space.apply(patient(digits(epochs=ENDLESS, replicas=2)))
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
def test_another_image_and_another_crd_touch_none_of_twenty_jobs_that_run(own_space: Space, tmp_path: Path) -> None:
    space, cluster = own_space, own_space.cluster
    manifest = digits(epochs=1, replicas=1, minReplicas=1, nprocPerNode=1)
    trainer(manifest)["command"] = ["sleep", "infinity"]
    items = [manifest | {"metadata": {"name": f"job-{number}"}} for number in range(MANY)]
    space.kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    space.kubectl("wait", "ejob", "--all", "--for=jsonpath={.status.phase}=Running", "--timeout=170s")
    before = _uids(space)
    run("docker", "tag", OPERATOR_IMAGE, f"{OPERATOR_IMAGE}-next")
    cluster.load(f"{OPERATOR_IMAGE}-next", cluster.control_plane())
    cluster.upgrade("operator.image.tag=dev-next", chart=_chart_with_another_crd(tmp_path))
    try:
        assert "dev-next" in cluster.kubectl("get", "-n", SYSTEM, OPERATOR, "-o", "yaml")
        assert "a shorter word" in cluster.kubectl("get", "crd", "elasticjobs.elasticjob.io", "-o", "yaml")
        space.apply(manifest | {"metadata": {"name": "after"}})
        space.kubectl("wait", "ejob/after", "--for=jsonpath={.status.phase}=Running", "--timeout=60s")
        assert before < _uids(space)
        assert {status["restartCount"] for pod in space.pods_of_all() for status in _containers(pod)} == {0}
        jobs = json.loads(space.kubectl("get", "ejob", "-o", "json"))["items"]
        assert {(space.counts(job["status"]), job["status"]["phase"]) for job in jobs} == {((1, 0, 0), "Running")}
    finally:
        cluster.install()
    space.kubectl("delete", "ejob", "--all", "--wait=false")
    space.kubectl("wait", KINDS, "--all", "--for=delete", "--timeout=120s")


def _chart_with_another_crd(folder: Path) -> Path:
    """Return a future chart: its CRD has one field more."""
    chart = Path(shutil.copytree(CHART, folder / "elasticjob"))
    crd = chart / "files" / "elasticjob-crd.yaml"
    field = "              suspend:\n"
    text = crd.read_text()
    assert text.count(field) == 1
    more = "              nickname:\n                type: string\n                description: a shorter word\n"
    crd.write_text(text.replace(field, more + field))
    return chart


@pytest.mark.nightly
def test_an_uninstalled_release_leaves_the_jobs_and_a_new_one_takes_them_over(
    own_space: Space, measured: Callable[[str, float], None]
) -> None:
    space, cluster = own_space, own_space.cluster
    space.apply(patient(digits(epochs=ENDLESS, replicas=2)))
    space.wait(phase="Running", readyReplicas=2)
    space.reached(15)
    before = _uids(space)
    cluster.helm("uninstall", RELEASE, "--wait")
    space.reached_more()
    cluster.install()
    measured("helm install -> ready", cluster.installed_s)
    # etcd was new: the agents write the job's records.
    space.written_back(2)
    space.reached_more()
    assert (_uids(space), space.counts()) == (before, (1, 0, 0))
    space.kill_worker(3)
    assert space.counts(space.wait(restarts=1, readyReplicas=2)) == (2, 1, 0)
    space.delete_job()
    assert space.objects(KINDS) == []


def _uids(space: Space) -> set[str]:
    return {pod["metadata"]["uid"] for pod in space.pods_of_all()}


def _containers(pod: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pod["status"]["containerStatuses"]
    return found

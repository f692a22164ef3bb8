"""Jobs side by side: the same name in two namespaces, and fifty at once."""

import json
from collections.abc import Callable
from datetime import datetime

import pytest

from e2e.cluster import Cluster
from e2e.manifests import ENDLESS, digits, patient, trainer
from e2e.space import KINDS, Space
from testing.waiting import eventually

pytestmark = pytest.mark.timeout(600)

MANY = 50


def test_two_jobs_of_one_name_in_two_namespaces_have_nothing_in_common(cluster: Cluster, own_space: Space) -> None:
    other = Space(cluster, f"{own_space.name}-2")
    cluster.kubectl("create", "namespace", other.name)
    spaces = (own_space, other)
    for space in spaces:
        space.apply(patient(digits(epochs=ENDLESS, replicas=2)))
    for space in spaces:
        assert space.wait(phase="Running", readyReplicas=2)["worldSize"] == 4
    own_space.reached(15)
    other.kill_worker(3)
    other.wait(restarts=1, readyReplicas=2)
    assert own_space.counts() == (1, 0, 0)
    other.delete_job()
    assert own_space.wait(phase="Running")["readyReplicas"] == 2
    cluster.kubectl("delete", "namespace", other.name)
    own_space.delete_job()
    assert own_space.objects(KINDS) == []


def test_a_namespace_that_is_deleted_with_its_jobs_disappears_soon_and_leaves_no_key(
    cluster: Cluster, own_space: Space
) -> None:
    doomed = Space(cluster, f"{own_space.name}-doomed")
    cluster.kubectl("create", "namespace", doomed.name)
    manifest = digits(epochs=ENDLESS, replicas=2)
    second = manifest | {"metadata": {"name": "second"}}
    doomed.kubectl(
        "apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": [manifest, second]})
    )
    for job in ("digits", "second"):
        doomed.kubectl("wait", f"ejob/{job}", "--for=jsonpath={.status.phase}=Running", "--timeout=120s")
    assert cluster.etcd_keys(f"/{doomed.name}/") != []
    cluster.kubectl("delete", "namespace", doomed.name, "--timeout=90s")
    eventually(lambda: not cluster.etcd_keys(f"/{doomed.name}/"), within_s=60, what="no key", pause_s=0.5)


@pytest.mark.nightly
def test_fifty_jobs_at_once_all_succeed_and_leave_nothing(
    own_space: Space, measured: Callable[[str, float], None]
) -> None:
    manifest = digits(epochs=1, replicas=1, minReplicas=1, nprocPerNode=1)
    trainer(manifest)["command"] = ["true"]
    items = [manifest | {"metadata": {"name": f"job-{number}"}} for number in range(MANY)]
    own_space.kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))

    def phases() -> list[str]:
        return own_space.kubectl("get", "ejob", "-o", "jsonpath={.items[*].status.phase}").split()

    eventually(lambda: phases() == ["Succeeded"] * MANY, within_s=400, what="all jobs succeeded", pause_s=2)
    found = json.loads(own_space.kubectl("get", "ejob", "-o", "json"))["items"]
    took = [_seconds(job["metadata"]["creationTimestamp"], job["status"]["completionTime"]) for job in found]
    measured(f"{MANY} jobs of 1 pod applied at once -> the last one succeeded", max(took))
    assert {own_space.counts(job["status"]) for job in found} == {(1, 0, 0)}
    uids = [job["metadata"]["uid"] for job in found]
    own_space.kubectl("delete", "ejob", "--all")
    own_space.kubectl("wait", KINDS, "--all", "--for=delete", "--timeout=120s")
    keys = own_space.cluster.etcd_keys
    eventually(lambda: not any(uid in key for key in keys("") for uid in uids), within_s=60, what="no key", pause_s=1)


def _seconds(start: str, end: str) -> float:
    return (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()

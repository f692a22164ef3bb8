"""Many pods in one job: created and replaced concurrently."""

import pytest

from testing.kube.jobs import waiting_job
from testing.kube.stack import KubeStack

pytestmark = pytest.mark.kube

SIZE = 256


def test_256_pods_are_created_and_30_that_are_deleted_at_once_are_replaced_by_as_many(rig: KubeStack) -> None:
    rig.start_operator()
    rig.namespace.apply(waiting_job(rig, replicas=SIZE, minReplicas=2))
    rig.until(f"{SIZE} pods", lambda: len(rig.pod_names()) == SIZE, within_s=60.0)
    before = rig.pod_names()
    rig.namespace.kubectl("delete", "pod", *before[:30], "--wait=false")
    kept = set(before[30:])

    def replaced() -> bool:
        now = rig.pod_names()
        return len(now) == SIZE and kept < set(now) and not set(before[:30]) & set(now)

    rig.until("30 others", replaced, within_s=60.0)
    slots = {pod["metadata"]["labels"]["elasticjob.io/slot"] for pod in rig.pods()}
    assert slots == {str(n) for n in range(SIZE)}
    budget = rig.namespace.kubectl("get", "pdb", "j", "-o", "jsonpath={.spec.minAvailable}")
    assert budget == "2"

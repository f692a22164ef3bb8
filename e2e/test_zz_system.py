"""After all the other tests, hence its name: operator and etcd have gone through them without a restart."""

import pytest

from e2e.cluster import SYSTEM, Cluster

pytestmark = pytest.mark.timeout(60)

_RESTARTS = 'jsonpath={range .items[*]}{.metadata.name} {.status.containerStatuses[0].restartCount}{"\\n"}{end}'


def test_neither_the_operator_nor_etcd_was_restarted(cluster: Cluster) -> None:
    pods = [line.split() for line in cluster.kubectl("get", "pods", "-n", SYSTEM, "-o", _RESTARTS).splitlines()]
    assert len(pods) == 2, pods
    restarted = [pod for pod, restarts in pods if restarts != "0"]
    last_words = [cluster.kubectl("logs", "-n", SYSTEM, pod, "--previous", "--tail=50") for pod in restarted]
    assert last_words == []

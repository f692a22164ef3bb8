"""Runs after all other tests, hence its name: the operator did not restart during them."""

import pytest

from e2e.cluster import SYSTEM, Cluster

pytestmark = pytest.mark.timeout(60)

_RESTARTS = 'jsonpath={range .items[*]}{.metadata.name} {.status.containerStatuses[0].restartCount}{"\\n"}{end}'
_OPERATOR = "app.kubernetes.io/component=operator"


def test_the_operator_was_not_restarted(cluster: Cluster) -> None:
    asked = cluster.kubectl("get", "pods", "-n", SYSTEM, "-l", _OPERATOR, "-o", _RESTARTS)
    for pod, restarts in (line.split() for line in asked.splitlines()):
        log = "" if restarts == "0" else cluster.kubectl("logs", "-n", SYSTEM, pod, "--previous", "--tail=50")
        assert log == ""

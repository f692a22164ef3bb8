"""A cluster with its kubelet side, for tests that any `protocol.Cluster` must pass.

`cluster` is a MemoryCluster on a clock that stands still. Nothing is patched: a test that needs a pod bound,
run or ended does it as a kubelet would. No processes are started.
"""

import pytest

from elasticjob_operator.cluster.in_memory import InMemoryCluster

NOW_S = 1_735_689_600.0


@pytest.fixture
def cluster() -> InMemoryCluster:
    return InMemoryCluster(clock=lambda: NOW_S)

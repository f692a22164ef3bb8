"""A cluster with the methods of a kubelet, for tests that every `Cluster` must pass.

`cluster` is an `InMemoryCluster` with a constant clock. Nothing is patched: a test that needs a bound, running or ended
pod acts as a kubelet would. No processes are started.
"""

import pytest

from elasticjob_operator.cluster.in_memory import InMemoryCluster

NOW_S = 1_735_689_600.0


@pytest.fixture
def cluster() -> InMemoryCluster:
    return InMemoryCluster(clock=lambda: NOW_S)

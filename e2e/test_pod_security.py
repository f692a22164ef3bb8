"""A namespace that enforces the restricted Pod Security standard: the operator's additions to a pod conform to it."""

import pytest

from e2e.cluster import SYSTEM
from e2e.manifests import digits, injected, restricted
from e2e.space import KINDS, Space

pytestmark = pytest.mark.timeout(180)


def test_a_restricted_job_with_an_injected_agent_succeeds_where_the_restricted_standard_is_enforced(
    own_space: Space,
) -> None:
    label = "pod-security.kubernetes.io/enforce=restricted"
    own_space.cluster.kubectl("label", "namespace", own_space.name, label)
    own_space.apply(restricted(injected(digits(epochs=12, replicas=2))))
    assert own_space.counts(own_space.wait(phase="Succeeded")) == (1, 0, 0)
    assert own_space.cluster.kubectl("get", "namespace", SYSTEM, "--show-labels").count(label) == 1
    own_space.delete_job()
    assert own_space.objects(KINDS) == []

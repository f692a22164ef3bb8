"""The leading operator is killed: the other one leads, and acts. A job's ordinary faults are measured, too."""

from collections.abc import Callable

import pytest

from e2e import operators
from e2e.cluster import Cluster
from e2e.manifests import ENDLESS, digits, hurried, injected
from e2e.space import KINDS, Space, pod_of

pytestmark = pytest.mark.timeout(300)

Measured = Callable[[str, float], None]


def test_the_operators_leader_is_killed_and_the_other_leads_and_acts(
    own_space: Space, default_cluster: Cluster, measured: Measured
) -> None:
    own_space.apply(hurried(digits(epochs=ENDLESS)))
    first = own_space.wait(phase="Running", readyReplicas=3)
    own_space.reached(30)
    led = operators.leader(default_cluster)
    killed_at = operators.kill(led)
    leads = operators.next_leader(default_cluster, led)
    measured("operator's leader killed -> the other leads", leads.acquired_at - killed_at)
    lost = pod_of(first, 2)
    own_space.delete_pod(lost)
    after = own_space.replaced(lost)
    assert own_space.counts(after)[1:] == (0, 0)
    assert {pod_of(first, rank) for rank in (0, 1)} < {node["podName"] for node in after["nodes"]}
    own_space.delete_job()
    assert own_space.objects(KINDS) == []


@pytest.mark.nightly
def test_what_a_user_waits_for(own_space: Space, measured: Measured) -> None:
    applied_at = own_space.applied(hurried(injected(digits(epochs=ENDLESS))))
    first = own_space.wait(phase="Running", readyReplicas=3)
    round_ = first["rendezvousRound"]
    measured("kubectl apply -> every worker of 3 pods started", own_space.running(round_) - applied_at)
    own_space.reached(45)
    killed_at = own_space.kill_worker(3)
    own_space.wait(restarts=1, rendezvousRound=round_ + 1, readyReplicas=3)
    measured("worker SIGKILLed -> every worker of the next round started", own_space.running(round_ + 1) - killed_at)
    lost, survivor = pod_of(first, 1), pod_of(first, 0)
    deleted_at = own_space.delete_pod(lost)
    went_on_at = own_space.log(survivor, until=rf"elasticjob-agent: round {round_ + 2}: .* are running")[-1][0]
    measured("kubectl delete pod -> every worker of the survivors started", went_on_at - deleted_at)
    own_space.replaced(lost)
    measured("kubectl delete pod -> replaced, every worker started", own_space.running(round_ + 3) - deleted_at)
    own_space.delete_job()
    assert own_space.objects(KINDS) == []

"""Replacement of a lost volume of an etcd member, with a cluster in memory."""

import logging
from typing import Any

import pytest

from elasticjob_operator.cluster.in_memory import InMemoryCluster
from elasticjob_operator.errors import Forbidden
from elasticjob_operator.maintenance.volumes import EtcdVolumeReplacer, claim_of
from elasticjob_operator.model.cluster_interface import Object, Resource
from testing.clocks.fake_clock import FakeClock

CLAIM, POD, NODE = Resource.PERSISTENT_VOLUME_CLAIM, Resource.POD, Resource.NODE


class Forgetful(InMemoryCluster):
    """A cluster that refuses requests for nodes while the test wants that."""

    refuses = False

    async def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        if self.refuses and resource is NODE:
            message = 'cannot get resource "nodes"'
            raise Forbidden(message)
        return await super().get(resource, namespace, name)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def cluster() -> Forgetful:
    """Return a cluster with the unscheduled pod p, whose volume is on the node n, which is not ready."""
    made = Forgetful()
    expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n"]}
    affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
    annotations = {"volume.kubernetes.io/selected-node": "n"}
    claim = {"name": claim_of("p"), "namespace": "s", "annotations": annotations}
    await made.create(Resource.PERSISTENT_VOLUME, {"metadata": {"name": "v"}, "spec": {"nodeAffinity": affinity}})
    await made.create(CLAIM, {"metadata": claim, "spec": {"volumeName": "v"}})
    await made.create(POD, {"metadata": {"name": "p", "namespace": "s"}, "spec": {}})
    await made.create(NODE, node("Unknown"))
    return made


def node(ready: str, since: str = "t1") -> Object:
    condition: dict[str, Any] = {"type": "Ready", "status": ready, "lastTransitionTime": since}
    return {"metadata": {"name": "n"}, "status": {"conditions": [condition]}}


@pytest.fixture
def volumes(cluster: Forgetful, clock: FakeClock) -> EtcdVolumeReplacer:
    return EtcdVolumeReplacer(cluster, "s", replace_after_s=600.0, clock=clock)


def there(cluster: InMemoryCluster) -> tuple[int, int]:
    """Return the numbers of claims and pods."""
    return len(cluster.objects(CLAIM)), len(cluster.objects(POD))


async def look(volumes: EtcdVolumeReplacer, clock: FakeClock, pod: str | None = "p", *, after_s: float = 0.0) -> None:
    clock.now_s += after_s
    await volumes.check(pod)


async def test_claim_and_pod_are_deleted_once_the_node_was_not_ready_for_the_whole_time(
    volumes: EtcdVolumeReplacer, cluster: Forgetful, clock: FakeClock
) -> None:
    await look(volumes, clock)
    await look(volumes, clock, after_s=599.0)
    assert there(cluster) == (1, 1)
    await look(volumes, clock, after_s=1.0)
    assert there(cluster) == (0, 0)


@pytest.mark.parametrize("between", ["the node was ready", "another member was away", "nothing could be known"])
async def test_an_interruption_restarts_the_time(
    volumes: EtcdVolumeReplacer, cluster: Forgetful, clock: FakeClock, between: str
) -> None:
    await look(volumes, clock)
    if between == "the node was ready":
        await cluster.replace(NODE, node("Unknown", since="t2"))
        await look(volumes, clock, after_s=300.0)
    elif between == "another member was away":
        await look(volumes, clock, None, after_s=300.0)
    else:
        volumes.forget()
    await look(volumes, clock, after_s=300.0)
    assert there(cluster) == (1, 1)


async def test_a_member_that_restarts_on_its_node_is_left_alone(
    volumes: EtcdVolumeReplacer, cluster: Forgetful, clock: FakeClock
) -> None:
    await cluster.replace(POD, {"metadata": {"name": "p", "namespace": "s"}, "spec": {"nodeName": "n"}})
    for _ in range(3):
        await look(volumes, clock, after_s=10_000.0)
    assert there(cluster) == (1, 1)


async def test_a_forbidden_read_is_no_evidence_and_is_logged_once(
    volumes: EtcdVolumeReplacer, cluster: Forgetful, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.refuses = True
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            await look(volumes, clock, after_s=10_000.0)
    assert there(cluster) == (1, 1)
    assert [record.getMessage().partition(": ")[2] for record in caplog.records] == ['cannot get resource "nodes"']
    cluster.refuses = False
    await look(volumes, clock)
    await look(volumes, clock, after_s=600.0)
    assert there(cluster) == (0, 0)

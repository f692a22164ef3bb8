"""A member of a real etcd whose volume is lost with its node, with a real API server and the chart's rights.

There are no controllers: the test creates pods and claims as a StatefulSet does.
"""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from elasticjob_etcd.client import EtcdClient
from elasticjob_etcd.interface import Put, Txn
from elasticjob_operator.cluster.connection import Connection
from elasticjob_operator.cluster.kube import KubeCluster
from elasticjob_operator.errors import Forbidden
from elasticjob_operator.maintenance.volumes import EtcdVolumeReplacer, claim_of
from elasticjob_operator.model.cluster_interface import Resource
from elasticjob_operator.policy.etcd.volumes import PROOF_DURATION_S
from testing.kube.service_accounts import apply
from testing.kube.stack import write_kubeconfig
from testing.servers.apiserver import ApiServer
from testing.servers.etcd_members import etcd_members
from testing.waiting import aeventually
from tests.integration.kube.conftest import Helm, install_rendered

pytestmark = [pytest.mark.kube, pytest.mark.etcd, pytest.mark.timeout(1000)]

PREFIX = "x-elasticjob-etcd-"
NODE = "a-node-of-etcd"
RIGHTS = ("ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")


class Seconds:
    """A clock that the test sets; it counts its reads, of which each check makes at least one."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.reads = 0

    def __call__(self) -> float:
        self.reads += 1
        return self.now_s


@pytest.fixture
async def cluster(
    crd: ApiServer, chart_namespace: str, helm: Helm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[KubeCluster]:
    """Return a client with the rights that the chart grants for volumes."""
    rendered = helm("template", "etcd.members=3", "etcd.persistence.enabled=true")
    install_rendered(crd, chart_namespace, rendered, *RIGHTS)
    token = crd.kubectl("create", "token", "x-elasticjob-operator", namespace=chart_namespace).stdout.strip()
    monkeypatch.setenv("KUBECONFIG", str(write_kubeconfig(tmp_path / "operator.kubeconfig", crd, token)))
    connection = await Connection.open()
    yield KubeCluster(connection)
    await connection.close()


def make_pod(server: ApiServer, namespace: str, number: int, volume: str) -> None:
    """Create the claim and the unscheduled pod of a member, as a StatefulSet does, unless they exist."""
    pod, claim = f"{PREFIX}{number}", claim_of(f"{PREFIX}{number}")
    size, modes = {"storage": "1Gi"}, ["ReadWriteOnce"]
    expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": [NODE]}
    affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
    local = {"capacity": size, "accessModes": modes, "local": {"path": "/x"}, "nodeAffinity": affinity}
    apply(server, {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": volume}, "spec": local})
    placed = {"name": claim, "namespace": namespace, "annotations": {"volume.kubernetes.io/selected-node": NODE}}
    wanted = {"volumeName": volume, "accessModes": modes, "resources": {"requests": size}, "storageClassName": ""}
    apply(server, {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": placed, "spec": wanted})
    mounted = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
    spec = {"containers": [{"name": "etcd", "image": "none"}], "volumes": mounted}
    apply(server, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": pod, "namespace": namespace}, "spec": spec})


def make_node(server: ApiServer) -> None:
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    apply(server, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}, "status": {"conditions": [ready]}})


async def test_a_member_whose_volume_is_lost_with_its_node_gets_another_and_joins(
    crd: ApiServer, chart_namespace: str, cluster: KubeCluster, tmp_path: Path
) -> None:
    seconds = Seconds()
    volumes = EtcdVolumeReplacer(cluster, chart_namespace, replace_after_s=600.0, clock=seconds)

    async def uid(resource: Resource, name: str) -> str:
        found = await cluster.get(resource, chart_namespace, name)
        return "" if found is None else str(found["metadata"]["uid"])

    async def deleted() -> bool:
        claim = await cluster.get(Resource.PERSISTENT_VOLUME_CLAIM, chart_namespace, claim_of(lost))
        is_going = (
            claim is None or "deletionTimestamp" in claim["metadata"]
        )  # a controller removes the finalizer in a cluster
        return is_going and not await uid(Resource.POD, lost)

    async def checks(count: int) -> None:
        wanted = seconds.reads + 2 * count
        await aeventually(lambda: seconds.reads >= wanted, within_s=60, what="some more checks of the members")

    make_node(crd)
    for number in range(3):
        make_pod(crd, chart_namespace, number, f"{chart_namespace}-{number}")
    async with etcd_members(tmp_path, prefix=PREFIX, volumes=volumes) as etcd:
        lost = etcd.name(2)
        kept = {name: await uid(Resource.PERSISTENT_VOLUME_CLAIM, claim_of(name)) for name in etcd.urls}
        etcd.start(0, 1, 2)
        await etcd.wait_healthy()
        client = EtcdClient(etcd.endpoint)
        await client.txn(Txn((), (Put("kept", b""),)))
        before = await etcd.ids()

        etcd.lose_data(2)
        await checks(3)
        seconds.now_s += 10_000.0
        await checks(3)
        assert not await deleted(), "its node is well"

        assert crd.kubectl("delete", "node", NODE).returncode == 0
        await checks(3)
        assert not await deleted(), "its node may be back in a moment"
        seconds.now_s += PROOF_DURATION_S
        away: Any = deleted  # mypy takes a coroutine function for a plain one
        await aeventually(away, within_s=60, what="the claim and the pod deleted")
        for name in (etcd.name(0), etcd.name(1)):
            assert await uid(Resource.PERSISTENT_VOLUME_CLAIM, claim_of(name)) == kept[name] != ""
            assert await uid(Resource.POD, name)

        etcd.start(2)
        await etcd.wait_healthy()
        after = await etcd.ids()
        assert [after[name] == before[name] for name in etcd.urls] == [True, True, False]
        assert await client.get("kept") is not None
        await client.close()


async def test_the_operator_may_delete_the_claims_of_its_etcd_and_no_others(
    chart_namespace: str, cluster: KubeCluster
) -> None:
    claim = Resource.PERSISTENT_VOLUME_CLAIM
    await cluster.delete(claim, chart_namespace, claim_of(f"{PREFIX}2"))
    for name in ("data-of-a-user", claim_of(f"{PREFIX}3")):
        with pytest.raises(Forbidden, match='cannot delete resource "persistentvolumeclaims"'):
            await cluster.delete(claim, chart_namespace, name)
        with pytest.raises(Forbidden, match='cannot get resource "persistentvolumeclaims"'):
            await cluster.get(claim, chart_namespace, name)

"""The identity of an installation: written once, by the first process, and never changed."""

import asyncio
import itertools
from typing import Any

import pytest

from elasticjob_operator.cluster.in_memory import InMemoryCluster
from elasticjob_operator.cluster.installation import Installation, read_installation
from elasticjob_operator.errors import ClusterError, Forbidden
from elasticjob_operator.model.cluster_interface import Object, Resource
from elasticjob_operator.model.objects import name_of


async def read(cluster: InMemoryCluster, *ids: str, cluster_id: str = "uid-of-kube-system") -> Installation:
    given = iter(ids)

    async def learnt() -> str:
        return cluster_id

    return await read_installation(cluster, "system", "e", new_id=lambda: next(given), cluster_id=learnt)


def config(cluster: InMemoryCluster) -> Any:
    [found] = cluster.objects(Resource.CONFIG_MAP)
    return found.get("data")


async def put(cluster: InMemoryCluster, **data: str) -> None:
    metadata = {"namespace": "system", "name": "e", "labels": {"app": "x"}}
    await cluster.create(Resource.CONFIG_MAP, {"metadata": metadata, **({"data": data} if data else {})})


async def test_an_empty_config_map_of_the_chart_is_filled_and_keeps_its_labels() -> None:
    cluster = InMemoryCluster()
    await put(cluster)
    assert await read(cluster, "a") == Installation("a", "uid-of-kube-system")
    assert config(cluster) == {"installation": "a", "clusterId": "uid-of-kube-system"}
    assert cluster.objects(Resource.CONFIG_MAP)[0]["metadata"]["labels"] == {"app": "x"}


async def test_the_identity_survives_a_restart_and_a_change_of_the_watched_namespaces() -> None:
    cluster = InMemoryCluster()
    first = await read(cluster, "a")
    assert await read(cluster, cluster_id="system.release") == first


async def test_ids_provided_by_a_user_are_used() -> None:
    cluster = InMemoryCluster()
    await put(cluster, installation="mine", other="x")
    assert await read(cluster) == Installation("mine", "uid-of-kube-system")
    assert config(cluster) == {"installation": "mine", "clusterId": "uid-of-kube-system", "other": "x"}


class Slow(InMemoryCluster):
    """A cluster in which two concurrent reads have the same result."""

    async def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        found = await super().get(resource, namespace, name)
        await asyncio.sleep(0)
        return found


@pytest.mark.parametrize("there", [True, False])
async def test_the_first_of_two_concurrent_writes_counts(*, there: bool) -> None:
    cluster = Slow()
    if there:
        await put(cluster)
    names = itertools.count()
    found = await asyncio.gather(*(read(cluster, f"{next(names)}", "again") for _ in range(2)))
    assert found[0] == found[1]


class Refusing(InMemoryCluster):
    async def create(self, resource: Resource, body: Object) -> Object:
        raise Forbidden(f"creating {resource.value}/{name_of(body)} is forbidden")


async def test_a_missing_config_map_without_the_right_to_create_it_is_an_error_with_a_cure() -> None:
    with pytest.raises(ClusterError, match=r"ConfigMap system/e is missing.*apply the chart or deploy/ again"):
        await read(Refusing(), "a")

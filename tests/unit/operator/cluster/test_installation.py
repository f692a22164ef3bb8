"""The identity that an installation keeps: written once, by the first, and never changed."""

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


async def test_an_empty_one_as_the_chart_makes_it_is_filled_and_keeps_its_labels() -> None:
    cluster = InMemoryCluster()
    await put(cluster)
    assert await read(cluster, "a") == Installation("a", "uid-of-kube-system")
    assert config(cluster) == {"installation": "a", "clusterId": "uid-of-kube-system"}
    assert cluster.objects(Resource.CONFIG_MAP)[0]["metadata"]["labels"] == {"app": "x"}


async def test_it_is_the_same_after_a_restart_and_after_a_change_of_the_namespaces_that_are_watched() -> None:
    cluster = InMemoryCluster()
    first = await read(cluster, "a")
    assert await read(cluster, cluster_id="system.release") == first


async def test_what_somebody_has_given_beforehand_is_kept() -> None:
    cluster = InMemoryCluster()
    await put(cluster, installation="mine", other="x")
    assert await read(cluster) == Installation("mine", "uid-of-kube-system")
    assert config(cluster) == {"installation": "mine", "clusterId": "uid-of-kube-system", "other": "x"}


class Slow(InMemoryCluster):
    """Two that read at the same time see the same."""

    async def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        found = await super().get(resource, namespace, name)
        await asyncio.sleep(0)
        return found


@pytest.mark.parametrize("there", [True, False])
async def test_of_two_processes_that_start_at_once_the_first_decides(*, there: bool) -> None:
    cluster = Slow()
    if there:
        await put(cluster)
    names = itertools.count()
    found = await asyncio.gather(*(read(cluster, f"{next(names)}", "again") for _ in range(2)))
    assert found[0] == found[1]


class Refusing(InMemoryCluster):
    async def create(self, resource: Resource, body: Object) -> Object:
        raise Forbidden(f"creating {resource.value}/{name_of(body)} is forbidden")


async def test_where_it_is_missing_and_may_not_be_made_the_error_names_the_cure() -> None:
    with pytest.raises(ClusterError, match=r"ConfigMap system/e is missing.*apply the chart or deploy/ again"):
        await read(Refusing(), "a")

"""A job is handed over repeatedly between two running installations: only its owner acts on it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

from elasticjob_etcd.memory.client import InMemoryEtcd, InMemoryStore
from elasticjob_operator.cluster.in_memory import InMemoryCluster
from elasticjob_operator.controller.controller import Controller
from elasticjob_operator.model.cluster_interface import Object, Resource
from elasticjob_operator.model.objects import name_of
from testing.operator_history import NAMESPACE, SETTINGS, OperatorHistory, manifest

HERE, THERE = "here", "there"


class Wire:
    """One operator's connection to the cluster; records the job's owner at each of its writes of pods."""

    def __init__(self, cluster: InMemoryCluster, installation: str, written: list[tuple[str, str]]) -> None:
        self._cluster = cluster
        self._installation = installation
        self._written = written

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    def _note(self) -> None:
        for job in self._cluster.objects(Resource.JOB):
            self._written.append((self._installation, job["status"]["installation"]))

    async def create(self, resource: Resource, body: Object) -> Object:
        if resource is Resource.POD:
            self._note()
        return await self._cluster.create(resource, body)

    async def create_strictly(self, resource: Resource, body: Object) -> Object:
        return await self.create(resource, body)

    async def delete(self, resource: Resource, namespace: str, name: str, **only: Any) -> None:
        if resource is Resource.POD:
            self._note()
        await self._cluster.delete(resource, namespace, name, **only)


@contextlib.asynccontextmanager
async def two_installations(stage: OperatorHistory) -> AsyncIterator[list[tuple[str, str]]]:
    """Run two installations, each with its own etcd; yield the records of their writes of pods."""
    written: list[tuple[str, str]] = []
    tasks = [
        asyncio.create_task(
            Controller(
                Wire(stage.cluster, installation, written),
                etcd,
                replace(SETTINGS, installation=installation, operator_id=installation),
                watch=stage.cluster.watch,
            ).run()
        )
        for installation, etcd in ((HERE, stage.etcd), (THERE, InMemoryEtcd(InMemoryStore())))
    ]
    try:
        yield written
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def made_by(stage: OperatorHistory) -> list[str]:
    """Return the installation that created each pod that is not terminating."""
    return [pod["metadata"]["annotations"]["elasticjob.io/installation"] for pod in stage.pods()]


async def hand_over(stage: OperatorHistory, owner: str) -> None:
    """Hand the job over with the documented command, and wait until the new owner's pods run."""
    found = await stage.cluster.get(Resource.JOB, NAMESPACE, name_of(stage.job))
    assert found is not None
    metadata = found["metadata"]
    await stage.cluster.claim(Resource.JOB, NAMESPACE, "digits", {"installation": owner}, metadata["resourceVersion"])
    await stage.until("three pods of the new owner", lambda: made_by(stage) == [owner] * 3)
    await stage.confirm_deletions()
    pods, generation = stage.pod_names(), metadata["generation"] + 1
    await stage.scale(maxRestarts=generation)  # both reconcile again
    await stage.until("a look", lambda: stage.status().get("observedGeneration") == generation)
    assert (stage.pod_names(), stage.status()["installation"]) == (pods, owner)


async def test_only_the_owner_creates_and_deletes_pods_after_any_number_of_handovers() -> None:
    stage = OperatorHistory()
    async with two_installations(stage) as written:
        await stage.apply(manifest(replicas=3))
        await stage.until("three pods", lambda: len(made_by(stage)) == 3)
        first = stage.status()["installation"]
        others = (THERE, HERE) if first == HERE else (HERE, THERE)
        for owner in others * 3:
            await hand_over(stage, owner)
        assert {writer for writer, _ in written} == {HERE, THERE}
        assert [pair for pair in written if pair[0] != pair[1]] == []

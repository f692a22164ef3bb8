"""A status that is sent while its job is deleted does not reach a new job of the same name."""

import asyncio
from collections.abc import Mapping
from typing import Any

from elasticjob_api.rendezvous_state import Cause, RoundPhase
from elasticjob_operator.cluster.in_memory import InMemoryCluster
from elasticjob_operator.model.cluster_interface import Resource
from elasticjob_operator.model.objects import uid_of
from testing.operator_history import NAMESPACE, manifest, operator_history, running


class Slow(InMemoryCluster):
    """A cluster that holds the status Succeeded of the first job until it is released, and then applies it."""

    def __init__(self) -> None:
        super().__init__()
        self.held = asyncio.Event()
        self.released = asyncio.Event()
        self.phases: list[str] = []
        """The uid of the job of this name, once the held status was sent."""

    async def patch_status(
        self, resource: Resource, namespace: str, name: str, status: Mapping[str, Any], **only: Any
    ) -> None:
        if status.get("phase") == "Succeeded":
            self.held.set()
            await self.released.wait()
        await super().patch_status(resource, namespace, name, status, **only)
        if status.get("phase") == "Succeeded":
            self.phases += [job.get("status", {}).get("phase", "none") for job in self.objects(Resource.JOB)]


async def test_the_last_status_of_a_job_is_not_written_to_a_new_job_of_its_name() -> None:
    cluster = Slow()
    async with operator_history(cluster, replicas=1) as stage:
        await running(stage, 1)
        before = uid_of(stage.job)
        await stage.end(RoundPhase.SUCCEEDED, Cause.SUCCEEDED)
        async with asyncio.timeout(30.0):
            await cluster.held.wait()
        await cluster.delete(Resource.JOB, NAMESPACE, "digits", uid=before)
        await stage.confirm_deletions()
        cluster.released.set()
        await stage.apply(manifest(replicas=1))
        assert uid_of(stage.job) != before
        await running(stage, 1)
        assert cluster.phases == ["none"]

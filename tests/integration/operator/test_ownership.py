"""Ownership of jobs and pods: two installations with one cluster, each with its etcd; and copied labels."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from elasticjob_etcd.memory.client import InMemoryEtcd, InMemoryStore
from elasticjob_operator.controller.controller import Controller
from elasticjob_operator.model.cluster_interface import Object, Resource
from elasticjob_operator.model.objects import merge_patch, name_of, uid_of
from elasticjob_operator.settings import Settings
from testing.operator_history import NAMESPACE, SETTINGS, OperatorHistory, manifest, operator_history, running

SHORT = {"joinTimeoutSeconds": 1}
"""Longer than the time after which a pod without an agent would be replaced."""


@contextlib.asynccontextmanager
async def another(stage: OperatorHistory, **settings: Any) -> AsyncIterator[InMemoryEtcd]:
    """Run a second installation on the same cluster, with an etcd of its own; yield that."""
    etcd = InMemoryEtcd(InMemoryStore())
    settings_there = replace(SETTINGS, installation="there", operator_id="op2", **settings)
    task = asyncio.create_task(Controller(stage.cluster, etcd, settings_there, watch=stage.cluster.watch).run())
    try:
        yield etcd
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def left_alone(stage: OperatorHistory) -> bool:
    return "OwnedByAnother" in stage.events()


async def give(stage: OperatorHistory, installation: str) -> None:
    """Hand the job over with the documented command."""
    found = await stage.cluster.get(Resource.JOB, NAMESPACE, name_of(stage.job))
    assert found is not None
    version = found["metadata"]["resourceVersion"]
    await stage.cluster.claim(Resource.JOB, NAMESPACE, name_of(stage.job), {"installation": installation}, version)


@pytest.mark.parametrize("cluster_id", ["c1", "c2"], ids=["same-cluster-id", "other-cluster-id"])
async def test_a_second_installation_creates_and_deletes_no_pod_of_the_firsts_job(cluster_id: str) -> None:
    async with operator_history(replicas=3, minReplicas=1, rendezvous=SHORT) as stage:
        await running(stage, 3)
        assert stage.status()["installation"] == "here"
        before, status = stage.pod_names(), stage.status()
        async with another(stage, cluster_id=cluster_id) as etcd:
            await stage.until("the event", lambda: left_alone(stage))
            await asyncio.sleep(0)  # the effects of the event are done
            await stage.scale(maxRestarts=9)  # both reconcile again
            await stage.until("a look", lambda: stage.status()["observedGeneration"] > status["observedGeneration"])
            assert stage.pod_names() == before
            assert not etcd.store.range("/elasticjob/").kvs
        assert stage.events().count("OwnedByAnother") == 1


async def test_the_first_of_two_installations_that_claims_a_new_job_gets_it() -> None:
    stage = OperatorHistory()
    stage.start_operator()
    try:
        async with another(stage, cluster_id="c2") as etcd:
            await stage.apply(manifest(replicas=3))
            await stage.until("three pods", lambda: len(stage.pods()) == 3)
            await stage.until("an event", lambda: left_alone(stage))
            owners = {pod["metadata"]["annotations"]["elasticjob.io/installation"] for pod in stage.pods()}
            assert owners == {stage.status()["installation"]}
            assert bool(stage.etcd_keys()) != bool(etcd.store.range("/elasticjob/").kvs)
    finally:
        await stage.stop_operator()


async def test_no_pod_is_created_before_the_job_names_its_installation() -> None:
    async with operator_history(replicas=1) as stage:
        seen: list[str] = []
        watch = stage.cluster.watch(Resource.POD)
        await stage.until("a pod", stage.pods)
        async for event in watch:
            seen.append(stage.status().get("installation", ""))
            if event.object:
                break
        await watch.aclose()
        assert set(seen) == {"here"}


async def test_after_a_handover_the_other_installation_creates_the_pods_again() -> None:
    async with operator_history(replicas=2, minReplicas=1) as stage:
        await running(stage, 2)
        before = stage.pod_names()
        async with another(stage) as etcd:
            await stage.until("the event", lambda: left_alone(stage))
            await give(stage, "there")
            await stage.until("two new pods", lambda: len(stage.pod_names() - before) == 2)
            await stage.confirm_deletions()
            owners = {pod["metadata"]["annotations"]["elasticjob.io/installation"] for pod in stage.pods()}
            assert owners == {"there"}
            assert stage.status()["installation"] == "there"
            assert etcd.store.range("/elasticjob/").kvs
            await stage.cluster.delete(Resource.JOB, NAMESPACE, name_of(stage.job))
            await stage.confirm_deletions()
            await stage.until("no keys here", lambda: not stage.etcd_keys())
            await stage.until("no keys there", lambda: not etcd.store.range("/elasticjob/").kvs)


async def test_a_job_of_a_version_without_installations_is_adopted_by_the_one_whose_keys_its_pods_use() -> None:
    stage = OperatorHistory()
    stage.start_operator(replace(SETTINGS, installation=""))
    try:
        await stage.apply(manifest(replicas=2, minReplicas=1, rendezvous=SHORT))
        await running(stage, 2)
        before = stage.pod_names()
        await stage.stop_operator()
        assert "installation" not in stage.status()
        async with another(stage, cluster_id="c2"):
            await stage.until("the event", lambda: left_alone(stage))
        stage.start_operator()
        await stage.until("its name", lambda: stage.status().get("installation") == "here")
        assert stage.pod_names() == before
    finally:
        await stage.stop_operator()


async def test_a_job_that_was_restored_with_its_status_is_a_new_one() -> None:
    stage = OperatorHistory()
    stage.start_operator()
    try:
        old = {"installation": "there", "phase": "Running", "selector": "elasticjob.io/job-uid=of-before"}
        await stage.apply({**manifest(replicas=2), "status": old})
        await running(stage, 2)
        assert stage.status()["installation"] == "here"
    finally:
        await stage.stop_operator()


async def test_after_a_rollback_to_a_version_without_installations_the_job_still_names_its_own() -> None:
    async with operator_history(replicas=2, minReplicas=1) as stage:
        await running(stage, 2)
        before = stage.pod_names()
        for installation in ("", "here"):
            await stage.stop_operator()
            stage.start_operator(replace(SETTINGS, installation=installation))
            await stage.scale(maxRestarts=len(installation))
            await looked(stage)
            assert stage.status()["installation"] == "here"
        assert stage.pod_names() == before


async def looked(stage: OperatorHistory) -> None:
    """Wait until the operator has observed the job in its current version."""
    generation = (await _job(stage))["metadata"]["generation"]
    await stage.until("a look", lambda: stage.status().get("observedGeneration") == generation)


async def _job(stage: OperatorHistory) -> Object:
    found = await stage.cluster.get(Resource.JOB, NAMESPACE, name_of(stage.job))
    assert found is not None
    return found


async def test_a_job_that_names_one_installation_as_its_manager_belongs_to_it_alone() -> None:
    mine = "example.com/there"
    async with operator_history(replicas=1, managedBy=mine) as stage:
        async with another(stage, manager_name=mine):
            await stage.until("its pod", stage.pods)
        assert stage.status()["installation"] == "there"
        assert not stage.etcd_keys()


async def test_a_pod_of_a_replica_set_with_copied_labels_is_left_alone() -> None:
    async with operator_history(replicas=2, minReplicas=1) as stage:
        await running(stage, 2)
        [first, _] = stage.pods()
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": uid_of(first), "controller": True}
        metadata = {"name": "innocent", "namespace": NAMESPACE, "labels": dict(first["metadata"]["labels"])}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {**metadata, "ownerReferences": [owner]}, "spec": {}}
        await stage.cluster.create(Resource.POD, body)
        await stage.scale(maxRestarts=9)
        await looked(stage)
        assert "innocent" in stage.pod_names()
        assert stage.status()["replicas"] == 2


async def test_orphaned_pods_remain_and_the_keys_are_deleted() -> None:
    async with operator_history(replicas=2, minReplicas=1) as stage:
        await running(stage, 2)
        before = stage.pod_names()
        await orphan(stage)
        await stage.until("no keys", lambda: not stage.etcd_keys())
        assert stage.pod_names() == before


async def orphan(stage: OperatorHistory) -> None:
    """Delete as `kubectl delete --cascade=orphan` does, with the steps of API server and garbage collector."""
    deleting = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["orphan"]}
    await stage.cluster.apply(Resource.JOB, merge_patch(await _job(stage), {"metadata": deleting}))
    for pod in stage.pods():
        await stage.cluster.apply(Resource.POD, merge_patch(pod, {"metadata": {"ownerReferences": []}}))
    await stage.cluster.delete(Resource.JOB, NAMESPACE, name_of(stage.job))


def test_the_settings_of_the_command_line_name_no_installation() -> None:
    assert Settings(cluster_id="c", operator_id="o", etcd_endpoints=()).installation == ""

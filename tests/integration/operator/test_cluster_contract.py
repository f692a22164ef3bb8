"""The contract of every `Cluster`: creation, deletion with grace, ownership, watches.

Written against the protocol and the kubelet's three calls, with bodies that a real API server accepts.
"""

from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest

from elasticjob_operator.cluster.in_memory import InMemoryCluster
from elasticjob_operator.errors import AlreadyExists, ClusterError, Conflict
from elasticjob_operator.model.cluster_interface import Change, Object, ObjectEvent, Resource
from elasticjob_operator.model.objects import is_terminating, uid_of

NAMESPACE = "default"


def pod(name: str, *, owner: Object | None = None, grace_s: int = 30, **labels: str) -> Object:
    meta: dict[str, Any] = {"name": name, "namespace": NAMESPACE, "labels": labels}
    if owner is not None:
        ref = {"apiVersion": "v1", "kind": "Service", "name": owner["metadata"]["name"], "uid": uid_of(owner)}
        meta["ownerReferences"] = [ref]
    spec = {"terminationGracePeriodSeconds": grace_s, "containers": [{"name": "trainer", "image": "none"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def service(name: str, port: int = 80) -> Object:
    spec = {"clusterIP": "None", "ports": [{"port": port, "protocol": "TCP"}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}


async def bound_pod(cluster: InMemoryCluster, name: str, **more: Any) -> Object:
    made = await cluster.create(Resource.POD, pod(name, **more))
    await cluster.bind_pod(NAMESPACE, name, uid_of(made), "node")
    return made


@asynccontextmanager
async def synced_watch(cluster: InMemoryCluster, resource: Resource) -> AsyncIterator[AsyncIterator[ObjectEvent]]:
    """Return a watch that has delivered its list."""
    stream: Any = cluster.watch(resource)
    async with aclosing(stream):
        while (await anext(stream)).change is not Change.SYNCED:
            pass
        yield stream


async def test_a_created_object_has_uid_version_generation_and_time(cluster: InMemoryCluster) -> None:
    meta = (await cluster.create(Resource.POD, pod("a")))["metadata"]
    assert meta["uid"]
    assert meta["resourceVersion"]
    assert meta["generation"] == 1
    assert meta["creationTimestamp"] == "2025-01-01T00:00:00Z"


async def test_creating_an_existing_name_is_refused(cluster: InMemoryCluster) -> None:
    await cluster.create(Resource.POD, pod("a"))
    with pytest.raises(AlreadyExists, match="pods/a"):
        await cluster.create(Resource.POD, pod("a"))


async def test_generate_name_is_completed(cluster: InMemoryCluster) -> None:
    body = pod("x")
    body["metadata"] = {"generateName": "a-", "namespace": NAMESPACE}
    made = await cluster.create(Resource.POD, body)
    assert made["metadata"]["name"].startswith("a-")
    assert len(made["metadata"]["name"]) > len("a-")


async def test_results_are_copies(cluster: InMemoryCluster) -> None:
    made = await cluster.create(Resource.POD, pod("a", x="1"))
    made["metadata"]["labels"]["x"] = "2"
    again = await cluster.get(Resource.POD, NAMESPACE, "a")
    assert again is not None
    assert again["metadata"]["labels"]["x"] == "1"


async def test_get_of_nothing_is_none(cluster: InMemoryCluster) -> None:
    assert await cluster.get(Resource.POD, NAMESPACE, "a") is None


async def test_apply_creates_then_updates_and_counts_generations(cluster: InMemoryCluster) -> None:
    first = await cluster.apply(Resource.SERVICE, service("s"))
    second = await cluster.apply(Resource.SERVICE, service("s", port=81))
    assert uid_of(first) == uid_of(second)
    assert second["spec"]["ports"][0]["port"] == 81
    assert second["metadata"]["generation"] == 2


async def test_applying_the_same_again_is_no_write(cluster: InMemoryCluster) -> None:
    first = await cluster.apply(Resource.SERVICE, service("s"))
    second = await cluster.apply(Resource.SERVICE, service("s"))
    assert first["metadata"]["resourceVersion"] == second["metadata"]["resourceVersion"]


async def test_an_object_is_not_applied_over_one_of_another_owner(cluster: InMemoryCluster) -> None:
    owner = await cluster.create(Resource.SERVICE, service("owner"))
    ref = {"apiVersion": "v1", "kind": "Service", "name": "owner", "uid": uid_of(owner)}
    owned = {**service("s", port=81), "metadata": {**service("s")["metadata"], "ownerReferences": [ref]}}
    theirs = await cluster.create(Resource.SERVICE, service("s"))
    with pytest.raises(Conflict, match="services default/s: s has another owner"):
        await cluster.apply(Resource.SERVICE, owned)
    assert await cluster.get(Resource.SERVICE, NAMESPACE, "s") == theirs
    await cluster.delete(Resource.SERVICE, NAMESPACE, "s")
    assert uid_of(await cluster.apply(Resource.SERVICE, owned)) == uid_of(await cluster.apply(Resource.SERVICE, owned))


async def test_a_status_write_changes_no_generation(cluster: InMemoryCluster) -> None:
    await cluster.create(Resource.JOB, {"metadata": {"name": "j", "namespace": NAMESPACE}, "spec": {"replicas": 1}})
    await cluster.patch_status(Resource.JOB, NAMESPACE, "j", {"phase": "Running"})
    job = await cluster.get(Resource.JOB, NAMESPACE, "j")
    assert job is not None
    assert (job["status"], job["metadata"]["generation"]) == ({"phase": "Running"}, 1)


async def test_a_status_write_replaces_the_earlier_status(cluster: InMemoryCluster) -> None:
    await cluster.create(Resource.JOB, {"metadata": {"name": "j", "namespace": NAMESPACE}, "spec": {"replicas": 1}})
    await cluster.patch_status(Resource.JOB, NAMESPACE, "j", {"phase": "Running", "masterPod": "j-0-aaaaa"})
    await cluster.patch_status(Resource.JOB, NAMESPACE, "j", {"phase": "Suspended"})
    job = await cluster.get(Resource.JOB, NAMESPACE, "j")
    assert job is not None
    assert job["status"] == {"phase": "Suspended"}


async def test_one_of_two_claims_succeeds_and_no_status_write_removes_it(cluster: InMemoryCluster) -> None:
    body = {"metadata": {"name": "j", "namespace": NAMESPACE}, "spec": {"replicas": 1}}
    seen = (await cluster.create(Resource.JOB, body))["metadata"]["resourceVersion"]
    await cluster.claim(Resource.JOB, NAMESPACE, "j", {"installation": "here"}, seen)
    with pytest.raises(Conflict, match="jobs/j: it has changed"):
        await cluster.claim(Resource.JOB, NAMESPACE, "j", {"installation": "there"}, seen)
    await cluster.patch_status(Resource.JOB, NAMESPACE, "j", {"phase": "Running", "masterPod": "m"})
    await cluster.patch_status(Resource.JOB, NAMESPACE, "j", {"phase": "Suspended"})
    job = await cluster.get(Resource.JOB, NAMESPACE, "j")
    assert job is not None
    assert job["status"] == {"installation": "here", "phase": "Suspended"}


async def test_a_claim_of_a_deleted_object_is_no_error(cluster: InMemoryCluster) -> None:
    await cluster.claim(Resource.JOB, NAMESPACE, "j", {"installation": "here"}, "1")


async def test_an_object_is_deleted_only_in_the_given_version(cluster: InMemoryCluster) -> None:
    made = await cluster.create(Resource.POD, pod("a"))
    seen = made["metadata"]["resourceVersion"]
    await cluster.annotate(Resource.POD, NAMESPACE, "a", {"x": "y"})
    with pytest.raises(Conflict, match="pods/a: it has changed"):
        await cluster.delete(Resource.POD, NAMESPACE, "a", uid=uid_of(made), version=seen)
    now = (await cluster.get(Resource.POD, NAMESPACE, "a") or {})["metadata"]["resourceVersion"]
    await cluster.delete(Resource.POD, NAMESPACE, "a", uid=uid_of(made), version=now)
    assert await cluster.get(Resource.POD, NAMESPACE, "a") is None


async def test_a_status_write_to_a_deleted_object_is_no_error(cluster: InMemoryCluster) -> None:
    await cluster.patch_status(Resource.JOB, NAMESPACE, "j", {"phase": "Running"})
    assert await cluster.get(Resource.JOB, NAMESPACE, "j") is None


async def test_a_status_is_not_written_to_a_successor_of_the_same_name(
    cluster: InMemoryCluster,
) -> None:
    body = {"metadata": {"name": "j", "namespace": NAMESPACE}, "spec": {"replicas": 1}}
    before = (await cluster.create(Resource.JOB, body))["metadata"]
    await cluster.delete(Resource.JOB, NAMESPACE, "j")
    after = (await cluster.create(Resource.JOB, body))["metadata"]
    for uid in (before["uid"], after["uid"]):
        version = before["resourceVersion"]
        await cluster.patch_status(Resource.JOB, NAMESPACE, "j", {"phase": uid}, uid=uid, version=version)
    job = await cluster.get(Resource.JOB, NAMESPACE, "j")
    assert job is not None
    assert job["status"] == {"phase": after["uid"]}


async def test_a_spec_patch_counts_a_generation(cluster: InMemoryCluster) -> None:
    await cluster.create(Resource.JOB, {"metadata": {"name": "j", "namespace": NAMESPACE}, "spec": {"replicas": 1}})
    job = await cluster.patch_spec(Resource.JOB, NAMESPACE, "j", {"replicas": 3})
    assert (job["spec"], job["metadata"]["generation"]) == ({"replicas": 3}, 2)


async def test_an_annotation_counts_no_generation(cluster: InMemoryCluster) -> None:
    await cluster.create(Resource.JOB, {"metadata": {"name": "j", "namespace": NAMESPACE}, "spec": {"replicas": 1}})
    job = await cluster.annotate(Resource.JOB, NAMESPACE, "j", {"elasticjob.io/restart": "1"})
    assert job["metadata"]["annotations"] == {"elasticjob.io/restart": "1"}
    assert job["metadata"]["generation"] == 1


async def test_patching_nothing_names_it(cluster: InMemoryCluster) -> None:
    with pytest.raises(ClusterError, match="elasticjobs/j in default: not found"):
        await cluster.patch_spec(Resource.JOB, NAMESPACE, "j", {"replicas": 3})


async def test_a_pod_without_a_node_is_deleted_at_once(cluster: InMemoryCluster) -> None:
    await cluster.create(Resource.POD, pod("a"))
    await cluster.delete(Resource.POD, NAMESPACE, "a")
    assert await cluster.get(Resource.POD, NAMESPACE, "a") is None


async def test_a_bound_pod_is_deleted_when_its_kubelet_confirms_it(cluster: InMemoryCluster) -> None:
    made = await bound_pod(cluster, "a", grace_s=40)
    await cluster.delete(Resource.POD, NAMESPACE, "a")
    dying = await cluster.get(Resource.POD, NAMESPACE, "a")
    assert dying is not None
    assert dying["metadata"]["deletionGracePeriodSeconds"] == 40
    assert dying["metadata"]["deletionTimestamp"] == "2025-01-01T00:00:40Z"
    await cluster.remove_pod(NAMESPACE, "a", uid_of(made))
    assert await cluster.get(Resource.POD, NAMESPACE, "a") is None


async def test_a_second_deletion_may_only_shorten_the_grace(cluster: InMemoryCluster) -> None:
    await bound_pod(cluster, "a", grace_s=40)
    for grace_s, expected in ((None, 40), (50.0, 40), (10.0, 10)):
        await cluster.delete(Resource.POD, NAMESPACE, "a", grace_s=grace_s)
        dying = await cluster.get(Resource.POD, NAMESPACE, "a")
        assert dying is not None
        assert dying["metadata"]["deletionGracePeriodSeconds"] == expected


async def test_deletion_without_grace_does_not_wait_for_the_kubelet(cluster: InMemoryCluster) -> None:
    await bound_pod(cluster, "a")
    await cluster.delete(Resource.POD, NAMESPACE, "a", grace_s=0.0)
    assert await cluster.get(Resource.POD, NAMESPACE, "a") is None


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
async def test_an_ended_pod_is_deleted_at_once(cluster: InMemoryCluster, phase: str) -> None:
    made = await bound_pod(cluster, "a")
    await cluster.patch_pod_status(NAMESPACE, "a", uid_of(made), {"phase": phase})
    await cluster.delete(Resource.POD, NAMESPACE, "a")
    assert await cluster.get(Resource.POD, NAMESPACE, "a") is None


async def test_deletion_by_uid_spares_another_of_the_same_name(cluster: InMemoryCluster) -> None:
    await cluster.create(Resource.POD, pod("a"))
    with pytest.raises(Conflict, match="uid"):
        await cluster.delete(Resource.POD, NAMESPACE, "a", uid="ffffffff-0000-0000-0000-000000000000")
    assert await cluster.get(Resource.POD, NAMESPACE, "a") is not None


async def test_deleting_a_deleted_object_is_no_error(cluster: InMemoryCluster) -> None:
    await cluster.delete(Resource.POD, NAMESPACE, "a", uid="ffffffff-0000-0000-0000-000000000000")
    assert await cluster.get(Resource.POD, NAMESPACE, "a") is None


async def test_delete_collection_takes_those_with_all_labels(cluster: InMemoryCluster) -> None:
    await cluster.create(Resource.POD, pod("a", x="1", y="1"))
    await cluster.create(Resource.POD, pod("b", x="1"))
    await cluster.delete_collection(Resource.POD, NAMESPACE, {"x": "1", "y": "1"})
    assert await cluster.get(Resource.POD, NAMESPACE, "a") is None
    assert await cluster.get(Resource.POD, NAMESPACE, "b") is not None


async def test_the_kubelet_cannot_touch_another_pod_of_the_same_name(cluster: InMemoryCluster) -> None:
    await bound_pod(cluster, "a")
    stranger = "ffffffff-0000-0000-0000-000000000000"
    await cluster.patch_pod_status(NAMESPACE, "a", stranger, {"phase": "Failed"})
    await cluster.remove_pod(NAMESPACE, "a", stranger)
    found = await cluster.get(Resource.POD, NAMESPACE, "a")
    assert found is not None
    assert found.get("status", {}).get("phase") != "Failed"


async def test_pod_status_is_merged(cluster: InMemoryCluster) -> None:
    uid = uid_of(await bound_pod(cluster, "a"))
    await cluster.patch_pod_status(NAMESPACE, "a", uid, {"phase": "Pending", "podIP": "10.0.0.1"})
    await cluster.patch_pod_status(NAMESPACE, "a", uid, {"phase": "Running"})
    found = await cluster.get(Resource.POD, NAMESPACE, "a")
    assert found is not None
    assert (found["status"]["phase"], found["status"]["podIP"]) == ("Running", "10.0.0.1")


async def test_dependents_go_with_their_owner_gracefully(cluster: InMemoryCluster) -> None:
    owner = await cluster.create(Resource.SERVICE, service("s"))
    await cluster.create(Resource.POD, pod("free", owner=owner))
    await bound_pod(cluster, "bound", owner=owner)
    await cluster.delete(Resource.SERVICE, NAMESPACE, "s")
    assert await cluster.get(Resource.POD, NAMESPACE, "free") is None
    bound = await cluster.get(Resource.POD, NAMESPACE, "bound")
    assert bound is not None
    assert is_terminating(bound)


async def test_a_dependent_created_after_its_owners_deletion_is_collected(cluster: InMemoryCluster) -> None:
    owner = await cluster.create(Resource.SERVICE, service("s"))
    await cluster.delete(Resource.SERVICE, NAMESPACE, "s")
    await cluster.create(Resource.POD, pod("late", owner=owner))
    assert await cluster.get(Resource.POD, NAMESPACE, "late") is None


async def test_a_watch_delivers_a_list_then_synced_then_changes_in_order(cluster: InMemoryCluster) -> None:
    await cluster.create(Resource.POD, pod("a"))
    stream: Any = cluster.watch(Resource.POD)
    async with aclosing(stream):
        seen = [await anext(stream), await anext(stream)]
        made = await bound_pod(cluster, "b")
        await cluster.remove_pod(NAMESPACE, "b", uid_of(made))
        seen += [await anext(stream) for _ in range(3)]
    changes = [(event.change, event.object.get("metadata", {}).get("name")) for event in seen]
    assert changes[:2] == [(Change.LISTED, "a"), (Change.SYNCED, None)]
    assert changes[2:] == [(Change.ADDED, "b"), (Change.MODIFIED, "b"), (Change.DELETED, "b")]


async def test_several_watches_each_see_every_change(cluster: InMemoryCluster) -> None:
    async with synced_watch(cluster, Resource.POD) as first, synced_watch(cluster, Resource.POD) as second:
        await cluster.create(Resource.POD, pod("a"))
        assert (await anext(first)).change is Change.ADDED
        assert (await anext(second)).change is Change.ADDED


async def test_a_watch_of_one_kind_sees_no_other(cluster: InMemoryCluster) -> None:
    async with synced_watch(cluster, Resource.SERVICE) as services:
        await cluster.create(Resource.POD, pod("a"))
        await cluster.create(Resource.SERVICE, service("s"))
        assert (await anext(services)).object["kind"] == "Service"


async def test_resource_versions_grow(cluster: InMemoryCluster) -> None:
    async with synced_watch(cluster, Resource.POD) as pods:
        made = await bound_pod(cluster, "a")
        await cluster.remove_pod(NAMESPACE, "a", uid_of(made))
        versions = [int((await anext(pods)).object["metadata"]["resourceVersion"]) for _ in range(3)]
    assert versions == sorted(set(versions))

"""The outcomes that the executor records for each response, and actions that it refuses because of old state."""

import asyncio
import itertools
from collections.abc import Mapping
from dataclasses import replace

import pytest

from elasticjob_api import constants
from elasticjob_api.job import Metadata
from elasticjob_api.keys import Keys
from elasticjob_etcd.interface import Put, Txn
from elasticjob_etcd.memory.client import InMemoryEtcd, InMemoryStore
from elasticjob_operator.cluster.in_memory import InMemoryCluster, sequential_ids
from elasticjob_operator.controller.executor import ActionExecutor, ReconcileContext
from elasticjob_operator.controller.import_profiles import ImportProfiles
from elasticjob_operator.errors import ClusterUnavailable, Forbidden, InvalidObject, RetryLater
from elasticjob_operator.model.actions import CreatePod, DeletePods, DeletePrefix, ForceDelete, GetPod, Remove
from elasticjob_operator.model.cluster_interface import Object, Resource
from elasticjob_operator.model.job_key import JobKey
from elasticjob_operator.model.job_state import JobState, NameState
from elasticjob_operator.model.objects import name_of, uid_of
from elasticjob_operator.model.pod_source import PodSource
from testing import builders
from testing.waiting import aeventually

NOW_S = 1000.0
KEY = JobKey("default", "j", "u1")


class RefusingCluster(InMemoryCluster):
    """A cluster that answers the creation of `refused` with `error`."""

    def __init__(self, error: Exception, refused: str = "j-0-a") -> None:
        super().__init__()
        self.error = error
        self.refused = refused

    async def create(self, resource: Resource, body: Object) -> Object:
        if name_of(body) == self.refused:
            raise self.error
        return await super().create(resource, body)


def turn(job: str = "j", namespace: str = "default") -> ReconcileContext:
    job_state = JobState()
    job_state.expect(f"{job}-0-a")
    return ReconcileContext(JobKey(namespace, job, "u1"), Keys("/p"), job_state, 0)


def creation(slot: int, job: str = "j", namespace: str = "default") -> CreatePod:
    made = replace(builders.job(), metadata=Metadata(name=job, namespace=namespace, uid="u1", generation=1))
    return CreatePod(f"{job}-{slot}-a", slot, PodSource(made, builders.SETTINGS))


def actor(cluster: InMemoryCluster, store: InMemoryStore | None = None) -> ActionExecutor:
    etcd = InMemoryEtcd(store or InMemoryStore())
    profiles = ImportProfiles(etcd=etcd, cluster=cluster, cluster_id="cluster", clock=lambda: NOW_S)
    return ActionExecutor(cluster=cluster, etcd=etcd, import_profiles=profiles, clock=lambda: NOW_S)


def body(name: str, uid: str = "u1") -> Object:
    labels = {constants.LABEL_JOB_NAME: "j", constants.LABEL_JOB_UID: uid}
    owners = [{"kind": "ElasticJob", "uid": uid}]
    metadata = {"name": name, "namespace": "default", "labels": labels, "ownerReferences": owners}
    return {"metadata": metadata, "spec": {}}


async def with_jobs() -> InMemoryCluster:
    """Return a cluster with the jobs `u1` and `u2`."""
    cluster = InMemoryCluster(ids=itertools.chain(("u1", "u2"), sequential_ids()))
    for name in ("j", "k"):
        await cluster.create(Resource.JOB, {"metadata": {"name": name, "namespace": "default"}})
    return cluster


async def test_pods_are_not_deleted_when_the_spec_has_changed_since() -> None:
    cluster, store = await with_jobs(), InMemoryStore()
    pod = await cluster.create(Resource.POD, body("j-0-a"))
    seen = store.txn(Txn((), (Put("/p/c/spec", b"1"),))).revision
    store.txn(Txn((), (Put("/p/c/spec", b"2"),)))
    await actor(cluster, store).execute(turn(), [DeletePods({"j-0-a": uid_of(pod)}, seen)])
    assert cluster.objects(Resource.POD)


async def test_pods_are_deleted_when_the_spec_is_still_the_one_planned_from() -> None:
    cluster, store = await with_jobs(), InMemoryStore()
    pod = await cluster.create(Resource.POD, body("j-0-a"))
    seen = store.txn(Txn((), (Put("/p/c/spec", b"1"),))).revision
    await actor(cluster, store).execute(turn(), [DeletePods({"j-0-a": uid_of(pod)}, seen)])
    assert not cluster.objects(Resource.POD)


async def test_a_pod_of_another_uid_is_not_deleted() -> None:
    cluster = await with_jobs()
    await cluster.create(Resource.POD, body("j-0-a"))
    await actor(cluster).execute(turn(), [DeletePods({"j-0-a": "another"}, None)])
    assert cluster.objects(Resource.POD)


async def test_a_created_pod_is_awaited() -> None:
    now = turn()
    await actor(InMemoryCluster()).execute(now, [creation(0)])
    assert now.job_state.state_of("j-0-a", NOW_S) is NameState.CREATED


@pytest.mark.parametrize(
    ("error", "state"),
    [
        pytest.param(Forbidden("quota"), NameState.EXPECTED, id="refused: it may be tried again"),
        pytest.param(RetryLater("webhook"), NameState.EXPECTED, id="refused for now: it may be tried again"),
        pytest.param(ClusterUnavailable("no answer"), NameState.UNKNOWN, id="no answer: look first"),
    ],
)
async def test_what_a_failed_creation_means_for_the_name(error: Exception, state: NameState) -> None:
    now = turn()
    with pytest.raises(type(error)):
        await actor(RefusingCluster(error)).execute(now, [creation(0)])
    assert now.job_state.state_of("j-0-a", NOW_S) is state


class Quota(InMemoryCluster):
    """A cluster with a quota for that many pods."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self.room = room
        self.asked = self.made = 0

    async def create(self, resource: Resource, body: Object) -> Object:
        self.asked += 1
        if self.made >= self.room:
            raise Forbidden(f"{name_of(body)}: exceeded quota")
        self.made += 1
        return await super().create(resource, body)


@pytest.mark.parametrize(
    ("room", "asked"),
    [
        pytest.param(0, 1, id="none is created: one request"),
        pytest.param(1, 3, id="the second batch of two is refused"),
        pytest.param(9, 15, id="the fourth batch, of eight, is refused in part"),
    ],
)
async def test_refused_creations_end_with_their_batch(room: int, asked: int) -> None:
    cluster, at = Quota(room), turn()
    with pytest.raises(Forbidden):
        await actor(cluster).execute(at, [creation(n) for n in range(500)])
    assert (cluster.asked, cluster.made) == (asked, room)
    assert at.job_state.failed_creation is not None
    assert "exceeded quota" in at.job_state.failed_creation.message


class Hanging(InMemoryCluster):
    """A cluster that never answers for pods of one namespace, as with an admission webhook that hangs."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    async def create(self, resource: Resource, body: Object) -> Object:
        if body["metadata"]["namespace"] == "hangs":
            self.asked += 1
            await asyncio.Event().wait()
        return await super().create(resource, body)


class WithoutTheRight(InMemoryCluster):
    """A cluster without the right to delete budgets, as with the role of an earlier version."""

    async def delete_collection(self, resource: Resource, namespace: str, selector: Mapping[str, str]) -> None:
        raise Forbidden(f"{resource.value} in {namespace} with {selector}: no deletecollection")


async def test_a_forbidden_removal_of_a_budget_delays_nothing(caplog: pytest.LogCaptureFixture) -> None:
    cluster, at = WithoutTheRight(), turn()
    await actor(cluster).execute(at, [Remove(Resource.DISRUPTION_BUDGET), creation(0)])
    assert "no deletecollection" in caplog.text
    assert at.job_state.applied == {Resource.DISRUPTION_BUDGET: {}}
    assert at.job_state.state_of("j-0-a", NOW_S) is NameState.CREATED


async def test_hanging_creations_of_one_namespace_leave_capacity_to_the_others() -> None:
    cluster = Hanging()
    hands = actor(cluster)
    turns = [(turn(f"j{n}", "hangs"), creation(0, f"j{n}", "hangs")) for n in range(100)]
    hanging = [asyncio.create_task(hands.execute(at, [wanted])) for at, wanted in turns]
    await aeventually(lambda: cluster.asked > 0, what="creations hang")
    async with asyncio.timeout(20.0):
        await hands.execute(turn(), [creation(0)])
    assert cluster.asked < 24
    for task in hanging:
        task.cancel()
    await asyncio.gather(*hanging, return_exceptions=True)


async def test_the_pause_grows_with_each_refusal_and_ends_with_a_success() -> None:
    cluster, at = Quota(0), turn()
    pauses = []
    for _ in range(8):
        with pytest.raises(Forbidden):
            await actor(cluster).execute(at, [creation(0)])
        assert at.job_state.failed_creation is not None
        pauses.append(at.job_state.failed_creation.retry_at_s - NOW_S)
    assert pauses == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    cluster.room = 1
    await actor(cluster).execute(at, [creation(0)])
    assert at.job_state.failed_creation is None


@pytest.mark.parametrize("strict", [True, False])
async def test_only_a_strict_creation_is_a_verdict_on_the_template(*, strict: bool) -> None:
    at = turn()
    with pytest.raises(InvalidObject):
        await actor(RefusingCluster(InvalidObject("unknown field"))).execute(at, [replace(creation(0), strict=strict)])
    assert at.job_state.failed_creation is not None
    assert at.job_state.failed_creation.invalid is strict


async def test_a_partly_created_batch_resets_the_pause() -> None:
    cluster, at = Quota(0), turn()
    for room in (0, 0, 2):
        cluster.room = room
        with pytest.raises(Forbidden):
            await actor(cluster).execute(at, [creation(n) for n in range(3)])
    assert at.job_state.failed_creation is not None
    assert at.job_state.failed_creation.attempts == 1


async def test_a_retry_after_of_the_api_server_is_respected() -> None:
    busy = RetryLater("too many requests")
    busy.retry_after_s = 7.0
    at = turn()
    with pytest.raises(RetryLater):
        await actor(RefusingCluster(busy)).execute(at, [creation(0)])
    assert at.job_state.failed_creation is not None
    assert at.job_state.failed_creation.retry_at_s == NOW_S + 7.0


async def test_a_pod_without_a_response_that_does_not_exist_was_never_created() -> None:
    cluster, now = RefusingCluster(ClusterUnavailable("no answer")), turn()
    with pytest.raises(ClusterUnavailable):
        await actor(cluster).execute(now, [creation(0)])
    await actor(cluster).execute(now, [GetPod("j-0-a")])
    assert now.job_state.state_of("j-0-a", NOW_S) is NameState.NEVER_CREATED


@pytest.mark.parametrize("proof", ["the watch delivered its deletion", "an agent wrote from it"])
async def test_a_pod_without_a_response_that_was_observed_was_created(proof: str) -> None:
    cluster, now = RefusingCluster(ClusterUnavailable("no answer")), turn()
    with pytest.raises(ClusterUnavailable):
        await actor(cluster).execute(now, [creation(0)])
    if proof == "the watch delivered its deletion":
        now.job_state.observed_absent("j-0-a", "uid-1")
    await actor(cluster).execute(now, [GetPod("j-0-a", frozenset({"uid-1"}))])
    assert now.job_state.state_of("j-0-a", NOW_S) is NameState.ABSENT


@pytest.mark.parametrize(
    ("there", "state"),
    [
        pytest.param(None, NameState.ABSENT, id="nothing"),
        pytest.param("u1", NameState.CREATED, id="ours"),
        pytest.param("u2", NameState.ABSENT, id="another job's"),
    ],
)
async def test_a_read_decides_about_a_name_with_an_unknown_outcome(there: str | None, state: NameState) -> None:
    cluster, now = await with_jobs(), turn()
    if there:
        await cluster.create(Resource.POD, body("j-0-a", there))
    await actor(cluster).execute(now, [GetPod("j-0-a")])
    assert now.job_state.state_of("j-0-a", NOW_S) is state


async def test_another_pod_of_the_name_proves_that_the_uid_is_deleted() -> None:
    cluster, now = await with_jobs(), turn()
    pod = await cluster.create(Resource.POD, body("j-0-a"))
    await actor(cluster).execute(now, [GetPod("j-0-a", frozenset({"old", uid_of(pod)}))])
    assert now.job_state.deleted_uids == {"old"}


class Nodes(InMemoryCluster):
    """A cluster with one node, or without the right to read it."""

    def __init__(self, ready: str, error: Exception | None = None) -> None:
        super().__init__()
        self.ready = ready
        self.error = error

    async def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        if resource is not Resource.NODE:
            return await super().get(resource, namespace, name)
        if self.error is not None:
            raise self.error
        return {"metadata": {"name": name}, "status": {"conditions": [{"type": "Ready", "status": self.ready}]}}


async def forced(cluster: InMemoryCluster) -> tuple[bool, list[str]]:
    """Return whether a pod that is stuck on node n was deleted, and the events about it."""
    owner = await cluster.create(Resource.JOB, {"metadata": {"name": "j", "namespace": "default"}})
    made = await cluster.create(Resource.POD, body("j-0-a", uid_of(owner)))
    await cluster.bind_pod("default", "j-0-a", uid_of(made), "n")
    await cluster.delete(Resource.POD, "default", "j-0-a")
    at = turn()
    await actor(cluster).execute(at, [ForceDelete("j-0-a", uid_of(made), "n")])
    assert at.job_state.node_checked_s == {uid_of(made): NOW_S}
    return not cluster.objects(Resource.POD), [event.message for event in at.events]


async def test_a_pod_stuck_on_a_dead_node_is_deleted_by_force_with_an_event() -> None:
    assert await forced(Nodes("Unknown")) == (
        True,
        ["pod j-0-a was deleted by force: its node n is not ready"],
    )


async def test_a_pod_on_a_healthy_node_is_not_deleted_by_force() -> None:
    assert await forced(Nodes("True")) == (False, [])


async def test_without_the_right_to_read_nodes_nothing_is_deleted_by_force() -> None:
    assert await forced(Nodes("Unknown", Forbidden("nodes n is forbidden"))) == (False, [])


class Crowd(InMemoryCluster):
    """A cluster that answers when no other request can arrive, and counts concurrent ones."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting = self.most = self.made = 0

    async def create(self, resource: Resource, body: Object) -> Object:
        self.waiting += 1
        for _ in range(10):  # all requests that can arrive have arrived by then
            await asyncio.sleep(0)
            self.most = max(self.most, self.waiting)
        self.waiting -= 1
        self.made += 1
        return await super().create(resource, body)


async def test_a_write_to_etcd_is_announced_before_it_is_sent() -> None:
    store, announced = InMemoryStore(), list[int]()
    store.txn(Txn((), (Put("/p/c/spec", b"x"),)))
    written = store.revision
    cluster, etcd = InMemoryCluster(), InMemoryEtcd(store)
    executor = ActionExecutor(
        cluster=cluster,
        etcd=etcd,
        import_profiles=ImportProfiles(etcd=etcd, cluster=cluster, cluster_id="cluster", clock=lambda: NOW_S),
        before_etcd_write=lambda: announced.append(store.revision),
        clock=lambda: NOW_S,
    )
    await executor.execute(turn(), [DeletePrefix()])
    assert announced == [written]
    assert store.revision > written


async def test_pods_of_a_large_job_are_created_concurrently() -> None:
    cluster, at = Crowd(), turn()
    await actor(cluster).execute(at, [creation(n) for n in range(256)])
    assert (cluster.made, cluster.most) == (256, 18)


async def test_only_a_few_pods_of_a_backlog_are_in_memory() -> None:
    """A body is rendered when its request may be sent, so there are only bodies of requests in progress."""
    cluster = Crowd()
    hands = actor(cluster)
    turns = [turn(f"j{job}", f"ns{job % 4}") for job in range(100)]
    pods = {at.key: [creation(n, at.key.name, at.key.namespace) for n in range(10)] for at in turns}
    await asyncio.gather(*(hands.execute(at, pods[at.key]) for at in turns))
    assert (cluster.made, cluster.most) == (1000, 24)

"""What the hands of the reconciler learn from each answer, and what they refuse to do on old knowledge."""

import asyncio

import pytest

from elasticjob_api import names
from elasticjob_api.keys import Keys
from elasticjob_etcd.memory import MemoryEtcd, MemoryStore
from elasticjob_etcd.protocol import Put, Txn
from elasticjob_operator.acting import Actor, Turn
from elasticjob_operator.actions import CreatePod, DeletePods, ForceDelete, LookPod
from elasticjob_operator.cluster.memory import MemoryCluster
from elasticjob_operator.cluster.objects import name_of, uid_of
from elasticjob_operator.cluster.protocol import Object, Resource
from elasticjob_operator.errors import ClusterUnavailable, Forbidden
from elasticjob_operator.jobkey import JobKey
from elasticjob_operator.ledger import Ledger, NameState

NOW_S = 1000.0
KEY = JobKey("default", "j", "u1")


class RefusingCluster(MemoryCluster):
    """Answers the creation of `refused` with `error`."""

    def __init__(self, error: Exception, refused: str = "j-0-a") -> None:
        super().__init__()
        self.error = error
        self.refused = refused

    async def create(self, resource: Resource, body: Object) -> Object:
        if name_of(body) == self.refused:
            raise self.error
        return await super().create(resource, body)


def turn() -> Turn:
    ledger = Ledger()
    ledger.propose("j-0-a")
    return Turn(KEY, Keys("/p"), ledger, 0)


def actor(cluster: MemoryCluster, store: MemoryStore | None = None) -> Actor:
    return Actor(cluster=cluster, etcd=MemoryEtcd(store or MemoryStore()), clock=lambda: NOW_S)


def body(name: str, uid: str = "u1") -> Object:
    labels = {names.LABEL_JOB_NAME: "j", names.LABEL_JOB_UID: uid}
    return {"metadata": {"name": name, "namespace": "default", "labels": labels}, "spec": {}}


async def test_pods_are_not_deleted_when_the_spec_has_changed_since() -> None:
    cluster, store = MemoryCluster(), MemoryStore()
    pod = await cluster.create(Resource.POD, body("j-0-a"))
    seen = store.txn(Txn((), (Put("/p/c/spec", b"1"),))).revision
    store.txn(Txn((), (Put("/p/c/spec", b"2"),)))
    await actor(cluster, store).perform(turn(), [DeletePods({"j-0-a": uid_of(pod)}, seen)])
    assert cluster.objects(Resource.POD)


async def test_pods_are_deleted_when_the_spec_is_still_the_one_planned_from() -> None:
    cluster, store = MemoryCluster(), MemoryStore()
    pod = await cluster.create(Resource.POD, body("j-0-a"))
    seen = store.txn(Txn((), (Put("/p/c/spec", b"1"),))).revision
    await actor(cluster, store).perform(turn(), [DeletePods({"j-0-a": uid_of(pod)}, seen)])
    assert not cluster.objects(Resource.POD)


async def test_a_pod_of_another_uid_is_not_deleted() -> None:
    cluster = MemoryCluster()
    await cluster.create(Resource.POD, body("j-0-a"))
    await actor(cluster).perform(turn(), [DeletePods({"j-0-a": "another"}, None)])
    assert cluster.objects(Resource.POD)


async def test_a_created_pod_is_awaited() -> None:
    now = turn()
    await actor(MemoryCluster()).perform(now, [CreatePod("j-0-a", body("j-0-a"))])
    assert now.ledger.state_of("j-0-a", NOW_S) is NameState.COMING


@pytest.mark.parametrize(
    ("error", "state"),
    [
        pytest.param(Forbidden("quota"), NameState.OURS, id="refused: it may be tried again"),
        pytest.param(ClusterUnavailable("no answer"), NameState.DOUBTFUL, id="no answer: look first"),
    ],
)
async def test_what_a_failed_creation_means_for_the_name(error: Exception, state: NameState) -> None:
    now = turn()
    with pytest.raises(type(error)):
        await actor(RefusingCluster(error)).perform(now, [CreatePod("j-0-a", body("j-0-a"))])
    assert now.ledger.state_of("j-0-a", NOW_S) is state


async def test_one_refused_pod_does_not_keep_the_others_from_being_created() -> None:
    cluster = RefusingCluster(Forbidden("quota"))
    pods = [CreatePod("j-0-a", body("j-0-a")), CreatePod("j-1-b", body("j-1-b"))]
    with pytest.raises(Forbidden):
        await actor(cluster).perform(turn(), pods)
    assert [name_of(pod) for pod in cluster.objects(Resource.POD)] == ["j-1-b"]


@pytest.mark.parametrize(
    ("there", "state"),
    [
        pytest.param(None, NameState.VANISHED, id="nothing"),
        pytest.param("u1", NameState.COMING, id="ours"),
        pytest.param("u2", NameState.VANISHED, id="another job's"),
    ],
)
async def test_looking_settles_a_doubtful_name(there: str | None, state: NameState) -> None:
    cluster, now = MemoryCluster(), turn()
    now.ledger.sending("j-0-a")
    if there:
        await cluster.create(Resource.POD, body("j-0-a", there))
    await actor(cluster).perform(now, [LookPod("j-0-a")])
    assert now.ledger.state_of("j-0-a", NOW_S) is state


async def test_looking_at_a_name_that_another_pod_has_proves_the_claimed_uid_gone() -> None:
    cluster, now = MemoryCluster(), turn()
    pod = await cluster.create(Resource.POD, body("j-0-a"))
    await actor(cluster).perform(now, [LookPod("j-0-a", frozenset({"old", uid_of(pod)}))])
    assert now.ledger.gone_uids == {"old"}


class Nodes(MemoryCluster):
    """With one node, or with no permission to look at it."""

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


async def forced(cluster: MemoryCluster) -> tuple[bool, list[str]]:
    """Whether a pod that is stuck on node n is gone now, and what was said of it."""
    made = await cluster.create(Resource.POD, body("j-0-a"))
    await cluster.bind_pod("default", "j-0-a", uid_of(made), "n")
    await cluster.delete(Resource.POD, "default", "j-0-a")
    at = turn()
    await actor(cluster).perform(at, [ForceDelete("j-0-a", uid_of(made), "n")])
    assert at.ledger.node_looked_s == {uid_of(made): NOW_S}
    return not cluster.objects(Resource.POD), [event.message for event in at.news]


async def test_a_pod_that_is_stuck_on_a_dead_node_is_deleted_by_force_and_told() -> None:
    assert await forced(Nodes("Unknown")) == (
        True,
        ["pod j-0-a was deleted by force: its node n is not ready"],
    )


async def test_a_pod_on_a_node_that_is_well_is_left_to_it() -> None:
    assert await forced(Nodes("True")) == (False, [])


async def test_an_operator_that_may_not_look_at_nodes_deletes_nothing_by_force() -> None:
    assert await forced(Nodes("Unknown", Forbidden("nodes n is forbidden"))) == (False, [])


class Crowd(MemoryCluster):
    """Answers nobody before `enough` requests are under way."""

    def __init__(self, enough: int) -> None:
        super().__init__()
        self.missing = enough
        self.full = asyncio.Event()

    async def create(self, resource: Resource, body: Object) -> Object:
        self.missing -= 1
        if self.missing <= 0:
            self.full.set()
        await self.full.wait()
        return await super().create(resource, body)


async def test_the_pods_of_a_large_job_are_created_side_by_side() -> None:
    cluster, at = Crowd(enough=32), turn()
    creations = [CreatePod(f"j-{n}-a", body(f"j-{n}-a")) for n in range(256)]
    async with asyncio.timeout(30):
        await actor(cluster).perform(at, creations)
    assert len(cluster.objects(Resource.POD)) == 256

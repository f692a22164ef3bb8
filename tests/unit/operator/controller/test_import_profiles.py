"""The import profiles that the operator keeps: later jobs of the same namespace, image and command find them."""

import zlib
from dataclasses import replace

import pytest

from elasticjob_api.constants import IMPORT_PROFILE_BYTES
from elasticjob_api.import_profile import ImportProfile, encode_profile
from elasticjob_api.keys import Keys, kept_profiles
from elasticjob_etcd.errors import Unavailable
from elasticjob_etcd.interface import KeyValue, Put, Txn
from elasticjob_etcd.memory.client import InMemoryEtcd, InMemoryStore
from elasticjob_operator.cluster.in_memory import InMemoryCluster
from elasticjob_operator.controller.import_profiles import MOST_COPIES, MOST_WRITES, PERIOD_S, ImportProfiles
from elasticjob_operator.errors import ClusterUnavailable, Forbidden
from elasticjob_operator.model.cluster_interface import Object, Resource
from elasticjob_operator.model.job_key import JobKey
from elasticjob_operator.model.job_state import JobState
from elasticjob_operator.model.objects import uid_of
from elasticjob_operator.policy.etcd.kept_profiles import MOST_OF_NAMESPACE

_PROFILE = ImportProfile(
    command="sha256:0",
    interpreter=("/usr/bin/python3.11", 5),
    modules={"torch": "/usr/lib/python3/torch/__init__.py"},
    folders=(),
    files={},
    denied=(),
    seconds=3.5,
)


def profile(seconds: float = 1.0) -> bytes:
    """Return the bytes of a profile that differs by this duration."""
    data = encode_profile(replace(_PROFILE, seconds=seconds))
    assert data is not None
    return data


class TenantCluster(InMemoryCluster):
    """A cluster whose namespaces can be read."""

    async def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        return await super().get(resource, namespace or "default", name)  # it keeps all objects in some namespace


class Tenants:
    """An etcd with the profiles of jobs, a cluster with namespaces and jobs, and the operator's component."""

    def __init__(self, cluster: InMemoryCluster | None = None, etcd: InMemoryEtcd | None = None) -> None:
        self.etcd = etcd or InMemoryEtcd(InMemoryStore())
        self.cluster = cluster or TenantCluster()
        self.now_s = 0.0
        self.profiles = ImportProfiles(etcd=self.etcd, cluster=self.cluster, cluster_id="c", clock=lambda: self.now_s)
        self.states: dict[JobKey, JobState] = {}

    async def namespace(self, name: str) -> None:
        await self.cluster.create(Resource.NAMESPACE, {"metadata": {"name": name}})

    async def job(self, name: str, namespace: str = "team-a", own: bytes | None = None) -> JobKey:
        """Create a job, and its namespace if there is none; its agent writes the profile `own`."""
        if await self.cluster.get(Resource.NAMESPACE, "", namespace) is None:
            await self.namespace(namespace)
        made = await self.cluster.create(Resource.JOB, {"metadata": {"name": name, "namespace": namespace}})
        job = JobKey(namespace, name, uid_of(made))
        if own is not None:
            await self.write(job, own)
        return job

    async def delete_all(self, namespace: str) -> None:
        """Delete a namespace and the jobs in it."""
        for found in self.cluster.objects(Resource.JOB):
            await self.cluster.delete(Resource.JOB, namespace, found["metadata"]["name"])
        await self.cluster.delete(Resource.NAMESPACE, "default", namespace)

    async def write(self, job: JobKey, own: bytes) -> None:
        await self.etcd.txn(Txn((), (Put(_keys(job).import_profile, own),)))

    async def keep(self, job: JobKey, name: str = "name") -> None:
        await self.profiles.keep(job, name, self.state(job))

    async def find(self, job: JobKey, name: str = "name") -> bytes | None:
        return await self.profiles.find(job, name, self.state(job))

    def state(self, job: JobKey) -> JobState:
        return self.states.setdefault(job, JobState())

    async def kept(self) -> list[KeyValue]:
        return list((await self.etcd.range(kept_profiles("c"))).kvs)


def _keys(job: JobKey) -> Keys:
    return job.keys("c")


async def test_a_later_job_of_the_namespace_finds_it() -> None:
    tenants = Tenants()
    await tenants.keep(await tenants.job("first", own=profile()))
    second = await tenants.job("second")
    assert await tenants.find(second) == profile()
    assert await tenants.find(second, "another") is None
    assert await tenants.find(await tenants.job("first", "team-b")) is None


async def test_another_namespace_of_the_same_name_inherits_nothing() -> None:
    tenants = Tenants()
    await tenants.keep(await tenants.job("first", own=profile()))
    await tenants.delete_all("team-a")
    stranger = await tenants.job("second")
    assert await tenants.find(stranger) is None
    await tenants.write(stranger, profile(2.0))
    await tenants.keep(stranger)
    assert await tenants.find(await tenants.job("third")) == profile(2.0)


async def test_the_profile_of_a_deleted_job_is_not_kept_in_another_namespace_of_the_same_name() -> None:
    """The operator may not have seen the deletions yet."""
    tenants = Tenants()
    deleted = await tenants.job("first", own=profile())
    await tenants.delete_all("team-a")
    await tenants.job("first")
    await tenants.keep(deleted)
    assert await tenants.kept() == []
    assert await tenants.find(deleted) is None


async def test_a_newer_one_replaces_it() -> None:
    tenants = Tenants()
    first = await tenants.job("first")
    for seconds in (1.0, 2.0):
        await tenants.write(first, profile(seconds))
        await tenants.keep(first)
    assert await tenants.find(await tenants.job("second")) == profile(2.0)


async def test_the_same_one_is_not_written_again() -> None:
    tenants = Tenants()
    first = await tenants.job("first", own=profile())
    await tenants.keep(first)
    before = await tenants.kept()
    await tenants.keep(first)
    assert await tenants.kept() == before


@pytest.mark.parametrize(
    "value",
    [b"", b"x" * (IMPORT_PROFILE_BYTES + 1), b"forged", profile()[:-1], profile() + b"x", zlib.compress(b"{}")],
    ids=["empty", "too large", "no profile", "truncated", "with a tail", "without fields"],
)
async def test_bytes_that_are_no_profile_are_not_kept(value: bytes, caplog: pytest.LogCaptureFixture) -> None:
    tenants = Tenants()
    first = await tenants.job("first", own=value)
    for _ in range(3):
        await tenants.keep(first)
    assert await tenants.kept() == []
    assert [record.getMessage() for record in caplog.records] == [
        "team-a/first: its import profile was not kept for later jobs: it is malformed or too large"
    ], "one line for one write of the job"


async def test_a_profile_that_is_written_after_a_malformed_one_is_kept() -> None:
    tenants = Tenants()
    first = await tenants.job("first", own=b"forged")
    await tenants.keep(first)
    await tenants.write(first, profile())
    await tenants.keep(first)
    assert [kv.value for kv in await tenants.kept()] == [profile()]


async def test_malformed_ones_are_looked_at_no_more_often_than_others(caplog: pytest.LogCaptureFixture) -> None:
    tenants = Tenants()
    first = await tenants.job("first")
    for number in range(3 * MOST_WRITES):
        await tenants.write(first, b"forged %d" % number)
        await tenants.keep(first)
    assert len(caplog.records) == MOST_WRITES


async def test_a_job_without_a_profile_keeps_the_earlier_one() -> None:
    tenants = Tenants()
    await tenants.keep(await tenants.job("first", own=profile()))
    second = await tenants.job("second")
    await tenants.keep(second)
    assert await tenants.find(second) == profile()


async def test_it_ends_with_a_lease_of_a_day() -> None:
    tenants = Tenants()
    await tenants.keep(await tenants.job("first", own=profile()))
    [kept] = await tenants.kept()
    assert kept.lease
    await tenants.etcd.lease_revoke(kept.lease)
    assert await tenants.find(await tenants.job("second")) is None


async def test_what_a_job_got_from_an_earlier_one_is_not_kept_again() -> None:
    tenants = Tenants()
    second = await tenants.job("second")
    await tenants.etcd.txn(Txn((), (Put(_keys(second).earlier_import_profile, profile()),)))
    await tenants.keep(second)
    assert await tenants.kept() == []


async def test_the_oldest_of_too_many_are_dropped() -> None:
    tenants = Tenants()
    first = await tenants.job("first", own=profile())
    for number in range(MOST_OF_NAMESPACE + 2):
        await tenants.keep(first, f"{number:02}")
    names = [kv.key.rpartition("/")[2] for kv in await tenants.kept()]
    assert names == [f"{number:02}" for number in range(2, MOST_OF_NAMESPACE + 2)]


async def _alternate(tenants: Tenants, jobs: list[JobKey], times: int) -> int:
    """Keep the profiles of jobs with one command in turn; return how many were written."""
    revisions = set()
    for number in range(times):
        await tenants.keep(jobs[number % len(jobs)])
        revisions |= {kv.mod_revision for kv in await tenants.kept()}
    return len(revisions)


async def test_jobs_that_replace_the_profile_of_each_other_do_not_fill_etcd() -> None:
    """Each forged round of a job costs it a few bytes, and the operator a profile."""
    tenants = Tenants()
    jobs = [await tenants.job(f"j{number}", own=profile(number)) for number in range(5)]
    assert await _alternate(tenants, jobs, 5 * MOST_WRITES) == MOST_WRITES
    stranger = await tenants.job("first", "team-b", own=profile())
    await tenants.keep(stranger)
    assert await tenants.find(stranger) == profile()
    tenants.now_s = PERIOD_S
    assert await _alternate(tenants, jobs, 5 * MOST_WRITES) == MOST_WRITES + 2  # those that were there, and new ones


async def test_a_namespace_that_creates_many_jobs_does_not_fill_etcd() -> None:
    """The first spec of each job has a copy of the profile."""
    tenants = Tenants()
    await tenants.keep(await tenants.job("first", own=profile()))
    later = [await tenants.job(f"j{number}") for number in range(MOST_COPIES + 10)]
    found = [await tenants.find(job) for job in later]
    assert found == [profile()] * MOST_COPIES + [None] * 10
    tenants.now_s = PERIOD_S
    assert await tenants.find(later[-1]) == profile()


async def test_a_namespace_is_read_once_for_a_job() -> None:
    class Counting(TenantCluster):
        reads = 0

        async def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
            self.reads += resource is Resource.NAMESPACE
            return await super().get(resource, namespace, name)

    cluster = Counting()
    tenants = Tenants(cluster)
    first = await tenants.job("first", own=profile())
    cluster.reads = 0
    for number in range(3):
        await tenants.find(first)
        await tenants.write(first, profile(number))
        await tenants.keep(first)
    assert cluster.reads == 1


async def test_without_the_right_to_read_namespaces_nothing_is_kept(caplog: pytest.LogCaptureFixture) -> None:
    class Refusing(TenantCluster):
        async def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
            if resource is Resource.NAMESPACE:
                raise Forbidden("namespaces is forbidden")
            return await super().get(resource, namespace, name)

    tenants = Tenants(Refusing())
    made = await tenants.cluster.create(Resource.JOB, {"metadata": {"name": "first", "namespace": "team-a"}})
    first = JobKey("team-a", "first", uid_of(made))
    await tenants.write(first, profile())
    for _ in range(2):
        await tenants.keep(first)
        assert await tenants.find(first) is None
    assert await tenants.kept() == []
    assert [record.getMessage() for record in caplog.records] == [
        "no import profiles are kept for later jobs: namespaces is forbidden"
    ]


class _EtcdAway(InMemoryEtcd):
    """An etcd that does not answer."""

    async def get(self, key: str) -> KeyValue | None:
        raise Unavailable(f"no answer about {key}")


class _ClusterAway(TenantCluster):
    """An API server that does not answer for namespaces, once there are some."""

    is_away = False

    async def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        if self.is_away and resource is Resource.NAMESPACE:
            raise ClusterUnavailable("no answer")
        return await super().get(resource, namespace, name)


async def test_an_etcd_or_an_api_server_that_does_not_answer_is_no_error() -> None:
    cluster = _ClusterAway()
    for tenants in (Tenants(etcd=_EtcdAway(InMemoryStore())), Tenants(cluster)):
        first = await tenants.job("first", own=profile())
        cluster.is_away = tenants.cluster is cluster
        await tenants.keep(first)
        assert await tenants.find(first) is None

"""The import profiles that the operator keeps: later jobs of the same namespace, image and command find them."""

import pytest

from elasticjob_api.constants import IMPORT_PROFILE_BYTES
from elasticjob_api.keys import Keys, kept_profile, kept_profiles
from elasticjob_etcd.errors import Unavailable
from elasticjob_etcd.interface import KeyValue, Put, Txn
from elasticjob_etcd.memory.client import InMemoryEtcd, InMemoryStore
from elasticjob_operator.controller.import_profiles import MOST_WRITES, WRITES_PERIOD_S, ImportProfiles
from elasticjob_operator.model.job_key import JobKey
from elasticjob_operator.policy.etcd.kept_profiles import MOST_OF_NAMESPACE

FIRST, SECOND = JobKey("team-a", "first", "u1"), JobKey("team-a", "second", "u2")
STRANGER = JobKey("team-b", "first", "u3")


class Store:
    """An etcd with the profiles of jobs, and the operator's component."""

    def __init__(self) -> None:
        self.etcd = InMemoryEtcd(InMemoryStore())
        self.now_s = 0.0
        self.profiles = ImportProfiles(self.etcd, "c", lambda: self.now_s)

    async def put(self, job: JobKey, value: bytes) -> None:
        await self.etcd.txn(Txn((), (Put(_keys(job).import_profile, value),)))

    async def kept(self) -> list[str]:
        return [kv.key for kv in (await self.etcd.range(kept_profiles("c"))).kvs]


def _keys(job: JobKey) -> Keys:
    return job.keys("c")


async def test_a_later_job_of_the_namespace_finds_it() -> None:
    store = Store()
    await store.put(FIRST, b"profile")
    await store.profiles.keep(FIRST, "name")
    assert await store.profiles.find(SECOND, "name") == b"profile"
    assert await store.profiles.find(SECOND, "another") is None
    assert await store.profiles.find(STRANGER, "name") is None


async def test_a_newer_one_replaces_it() -> None:
    store = Store()
    for value in (b"old", b"new"):
        await store.put(FIRST, value)
        await store.profiles.keep(FIRST, "name")
    assert await store.profiles.find(SECOND, "name") == b"new"


async def test_the_same_one_is_not_written_again() -> None:
    store = Store()
    await store.put(FIRST, b"profile")
    await store.profiles.keep(FIRST, "name")
    revision = (await store.etcd.range(kept_profiles("c"))).kvs[0].mod_revision
    await store.profiles.keep(FIRST, "name")
    assert (await store.etcd.range(kept_profiles("c"))).kvs[0].mod_revision == revision


@pytest.mark.parametrize("value", [b"", b"x" * (IMPORT_PROFILE_BYTES + 1)])
async def test_a_profile_of_another_size_is_not_kept(value: bytes) -> None:
    store = Store()
    await store.put(FIRST, value)
    await store.profiles.keep(FIRST, "name")
    assert await store.kept() == []


async def test_a_job_without_a_profile_keeps_the_earlier_one() -> None:
    store = Store()
    await store.put(FIRST, b"profile")
    await store.profiles.keep(FIRST, "name")
    await store.profiles.keep(SECOND, "name")
    assert await store.profiles.find(SECOND, "name") == b"profile"


async def test_it_ends_with_a_lease_of_a_day() -> None:
    store = Store()
    await store.put(FIRST, b"profile")
    await store.profiles.keep(FIRST, "name")
    [kept] = (await store.etcd.range(kept_profiles("c"))).kvs
    assert kept.lease
    await store.etcd.lease_revoke(kept.lease)
    assert await store.profiles.find(SECOND, "name") is None


async def test_what_a_job_got_from_an_earlier_one_is_not_kept_again() -> None:
    store = Store()
    await store.etcd.txn(Txn((), (Put(_keys(SECOND).earlier_import_profile, b"profile"),)))
    await store.profiles.keep(SECOND, "name")
    assert await store.kept() == []


async def test_the_oldest_of_too_many_are_dropped() -> None:
    store = Store()
    await store.put(FIRST, b"profile")
    for number in range(MOST_OF_NAMESPACE + 2):
        await store.profiles.keep(FIRST, f"{number:02}")
    assert await store.kept() == [kept_profile("c", "team-a", f"{n:02}") for n in range(2, MOST_OF_NAMESPACE + 2)]


async def _alternate(store: Store, times: int) -> int:
    """Keep the profiles of two jobs with one command in turn; return how many were written."""
    prefix = kept_profiles("c")
    revisions = set()
    for number in range(times):
        await store.profiles.keep((FIRST, SECOND)[number % 2], "name")
        revisions |= {kv.mod_revision for kv in (await store.etcd.range(prefix)).kvs}
    return len(revisions)


async def test_jobs_that_replace_the_profile_of_each_other_do_not_fill_etcd() -> None:
    """Each forged round of a job costs it a few bytes, and the operator a profile."""
    store = Store()
    for job, value in ((FIRST, b"one"), (SECOND, b"two")):
        await store.put(job, value)
    assert await _alternate(store, 5 * MOST_WRITES) == MOST_WRITES
    await store.put(STRANGER, b"other")
    await store.profiles.keep(STRANGER, "name")
    assert await store.profiles.find(STRANGER, "name") == b"other"
    store.now_s = WRITES_PERIOD_S
    assert await _alternate(store, 5 * MOST_WRITES) == MOST_WRITES + 1  # the one that was there, and new ones


class _Away(InMemoryEtcd):
    """An etcd that does not answer."""

    async def get(self, key: str) -> KeyValue | None:
        raise Unavailable(f"no answer about {key}")


async def test_an_etcd_that_does_not_answer_is_no_error() -> None:
    profiles = ImportProfiles(_Away(InMemoryStore()), "c", lambda: 0.0)
    await profiles.keep(FIRST, "name")
    assert await profiles.find(FIRST, "name") is None

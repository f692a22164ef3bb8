"""Caches of jobs and pods: what they retain and drop, and what proves a deletion."""

import copy
from typing import Any

import pytest

from elasticjob_operator.informers.caches import JobCache, PodCache
from elasticjob_operator.model.cluster_interface import Change, Object, ObjectEvent
from elasticjob_operator.model.job_key import JobKey

JOB = JobKey("ns", "j", "u")
OTHER = JobKey("ns", "k", "u2")
SYNCED = ObjectEvent(Change.SYNCED, {})


def job(key: JobKey = JOB, **fields: Any) -> Object:
    return {"metadata": {"namespace": key.namespace, "name": key.name, "uid": key.uid}, **fields}


def pod(name: str = "p", key: JobKey | None = JOB, uid: str = "") -> Object:
    labels = {"elasticjob.io/job-name": key.name, "elasticjob.io/job-uid": key.uid} if key else {}
    owners = [{"kind": "ElasticJob", "uid": key.uid}] if key else []
    identity = {"namespace": "ns", "name": name, "uid": uid or f"uid-{name}"}
    return {"metadata": {**identity, "labels": labels, "ownerReferences": owners}}


def versioned(obj: Object, version: int) -> Object:
    return {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(version)}}


class Jobs:
    """A cache of jobs, and the keys of its reported changes."""

    def __init__(self, *events: ObjectEvent) -> None:
        self.changed: list[JobKey] = []
        self.versions: list[tuple[Object | None, Object | None]] = []
        self.cache = JobCache(self._change)
        self.take(*events)

    def _change(self, key: JobKey, before: Object | None, after: Object | None) -> None:
        self.changed.append(key)
        self.versions.append((before, after))

    def take(self, *events: ObjectEvent) -> None:
        self.changed.clear()
        for event in events:
            self.cache.apply(event)


def test_each_change_has_the_version_before_and_after() -> None:
    small, large = job(spec={"replicas": 1}), job(spec={"replicas": 2})
    jobs = Jobs(
        ObjectEvent(Change.ADDED, small), ObjectEvent(Change.MODIFIED, large), ObjectEvent(Change.DELETED, large)
    )
    assert jobs.versions == [(None, small), (small, large), (large, None)]


def test_a_job_that_a_list_lacks_changes_to_none() -> None:
    assert Jobs(ObjectEvent(Change.ADDED, job()), SYNCED).versions == [(None, job()), (job(), None)]


def test_unchanged_parts_of_a_job_share_memory() -> None:
    written: Object = {"phase": "Running", "nodes": [1]}
    cache = Jobs().cache
    shown = job(spec={"template": {"a": 1}}, status=written)
    shown["metadata"]["labels"] = {"team": "a"}
    first, last = [_taken(cache, versioned(copy.deepcopy(shown), version)) for version in (1, 2)]
    assert last == versioned(shown, 2)
    assert last["status"] is first["status"]
    assert last["spec"] is first["spec"]
    assert last["metadata"]["labels"] is first["metadata"]["labels"]
    cache.share_status(JOB, written)
    assert last["status"] is written


def _taken(cache: JobCache, obj: Object) -> Object:
    cache.apply(ObjectEvent(Change.MODIFIED, obj))
    found = cache.get(JOB)
    assert found is not None
    return found


class Pods:
    """A cache of pods, the keys of its reported changes, and its reported deletions."""

    def __init__(self, *events: ObjectEvent) -> None:
        self.changed: list[JobKey] = []
        self.deleted: list[tuple[JobKey, str, str]] = []
        self.cache = PodCache(self.changed.append, lambda *what: self.deleted.append(what))
        self.take(*events)

    def take(self, *events: ObjectEvent) -> None:
        self.changed.clear()
        for event in events:
            self.cache.apply(event)

    def names(self, key: JobKey = JOB) -> set[str]:
        return set(self.cache.of(key))


def test_a_job_without_a_status_counts_as_pending() -> None:
    pending = {"status": {"phase": "Pending"}}
    jobs = Jobs(ObjectEvent(Change.ADDED, job()), ObjectEvent(Change.ADDED, {**job(), "metadata": _other(), **pending}))
    assert [phase for _, phase in jobs.cache.phases()] == ["Pending", "Pending"]


def _other() -> dict[str, Any]:
    return {"namespace": "ns", "name": "other", "uid": "other"}


def test_the_cache_has_the_last_version_of_a_job() -> None:
    jobs = Jobs(ObjectEvent(Change.ADDED, job()), ObjectEvent(Change.MODIFIED, job(spec=2)))
    assert jobs.cache.get(JOB) == job(spec=2)
    assert jobs.changed == [JOB, JOB]


def test_a_deleted_job_is_dropped_and_reported() -> None:
    jobs = Jobs(ObjectEvent(Change.ADDED, job()))
    jobs.take(ObjectEvent(Change.DELETED, job()))
    assert (jobs.cache.get(JOB), jobs.cache.keys(), jobs.changed) == (None, set(), [JOB])


def test_a_job_that_a_new_list_lacks_is_dropped_and_reported() -> None:
    jobs = Jobs(ObjectEvent(Change.ADDED, job()), ObjectEvent(Change.ADDED, job(OTHER)))
    jobs.take(ObjectEvent(Change.LISTED, job(OTHER)), SYNCED)
    assert jobs.cache.keys() == {OTHER}
    assert JOB in jobs.changed


def test_each_list_is_compared_by_itself() -> None:
    jobs = Jobs(ObjectEvent(Change.LISTED, job()), SYNCED)
    jobs.take(SYNCED)
    assert jobs.cache.keys() == set()


def test_a_recreated_job_has_a_key_of_its_own() -> None:
    jobs = Jobs(ObjectEvent(Change.ADDED, job()), ObjectEvent(Change.ADDED, job(JobKey("ns", "j", "new"))))
    jobs.take(ObjectEvent(Change.DELETED, job()))
    assert jobs.cache.keys() == {JobKey("ns", "j", "new")}


def test_pods_are_cached_by_job() -> None:
    pods = Pods(ObjectEvent(Change.ADDED, pod("p")), ObjectEvent(Change.ADDED, pod("q", OTHER)))
    assert (pods.names(JOB), pods.names(OTHER), pods.changed) == ({"p"}, {"q"}, [JOB, OTHER])


def test_a_pod_without_a_job_is_not_cached_and_not_reported() -> None:
    pods = Pods(ObjectEvent(Change.ADDED, pod(key=None)), ObjectEvent(Change.DELETED, pod(key=None)))
    assert (pods.cache.keys(), pods.changed, pods.deleted) == (set(), [], [])


def test_a_deletion_event_is_reported_with_the_uid() -> None:
    pods = Pods(ObjectEvent(Change.ADDED, pod("p")))
    pods.take(ObjectEvent(Change.DELETED, pod("p")))
    assert (pods.names(), pods.deleted, pods.changed) == (set(), [(JOB, "p", "uid-p")], [JOB])


def test_the_deletion_of_an_unknown_pod_is_reported_too() -> None:
    pods = Pods(ObjectEvent(Change.DELETED, pod("p")))
    assert pods.deleted == [(JOB, "p", "uid-p")]


def test_a_pod_that_a_new_list_lacks_is_dropped_without_proof_of_its_deletion() -> None:
    pods = Pods(ObjectEvent(Change.ADDED, pod("p")), ObjectEvent(Change.ADDED, pod("q")))
    pods.take(ObjectEvent(Change.LISTED, pod("q")), SYNCED)
    assert (pods.names(), pods.deleted) == ({"q"}, [])
    assert JOB in pods.changed


def test_a_job_without_pods_has_no_entry() -> None:
    pods = Pods(ObjectEvent(Change.ADDED, pod("p")))
    assert pods.cache.keys() == {JOB}
    pods.take(ObjectEvent(Change.DELETED, pod("p")), ObjectEvent(Change.DELETED, pod("other")))
    assert pods.cache.keys() == set()


def test_reading_a_jobs_pods_adds_no_entry() -> None:
    pods = Pods()
    assert (pods.names(), pods.cache.keys()) == (set(), set())


def test_a_listed_job_of_a_known_version_is_no_change() -> None:
    jobs = Jobs(ObjectEvent(Change.ADDED, versioned(job(), 1)))
    jobs.take(ObjectEvent(Change.LISTED, versioned(job(), 1)), SYNCED)
    assert (jobs.changed, jobs.cache.keys()) == ([], {JOB})
    jobs.take(ObjectEvent(Change.LISTED, versioned(job(spec=2), 2)), SYNCED)
    assert (jobs.changed, jobs.cache.get(JOB)) == ([JOB], versioned(job(spec=2), 2))


def test_a_listed_pod_of_a_known_version_is_no_change() -> None:
    pods = Pods(ObjectEvent(Change.ADDED, versioned(pod("p"), 1)))
    pods.take(ObjectEvent(Change.LISTED, versioned(pod("p"), 1)), SYNCED)
    assert (pods.changed, pods.names()) == ([], {"p"})
    pods.take(ObjectEvent(Change.LISTED, versioned(pod("p", uid="other"), 2)), SYNCED)
    assert (pods.changed, pods.cache.of(JOB)["p"].uid) == ([JOB], "other")


def test_objects_without_a_version_are_never_known() -> None:
    pods = Pods(ObjectEvent(Change.ADDED, pod("p")))
    pods.take(ObjectEvent(Change.LISTED, pod("p", uid="other")), SYNCED)
    assert pods.changed == [JOB]


def phased(phase: str, **status: Any) -> Object:
    return {**pod("p"), "status": {"phase": phase, **status}}


def progress_and_changes(*shown: Object) -> tuple[list[JobKey], list[JobKey]]:
    """Return the numbers of progress calls and changes that a cache reports for these versions of a pod."""
    good: list[JobKey] = []
    changed: list[JobKey] = []
    cache = PodCache(changed.append, lambda *_what: None, good.append)
    for obj in shown:
        cache.apply(ObjectEvent(Change.MODIFIED, obj))
    return good, changed


def test_a_new_pod_and_its_start_are_progress() -> None:
    running = phased("Running", startTime="2026-01-01T00:00:00Z", conditions=[{"type": "Ready", "status": "True"}])
    assert progress_and_changes(phased("Pending"), running) == ([JOB, JOB], [])


def test_a_change_of_unused_fields_of_a_pod_is_not_reported() -> None:
    failed = phased("Failed", reason="Evicted")
    assert progress_and_changes(failed, versioned(failed, 2)) == ([], [JOB])


@pytest.mark.parametrize(
    "then",
    [
        phased("Failed"),
        phased("Succeeded"),
        phased("Pending", conditions=[{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]),
        phased("Running", conditions=[{"type": "DisruptionTarget", "status": "True"}]),
        {**phased("Running"), "metadata": {**pod("p")["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}},
        {**phased("Running"), "metadata": pod("p", uid="other")["metadata"]},
    ],
)
def test_anything_else_of_a_pod_is_a_change(then: Object) -> None:
    assert progress_and_changes(phased("Pending"), then) == ([JOB], [JOB])


def test_the_end_of_a_pods_trouble_is_a_change() -> None:
    unschedulable = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    assert progress_and_changes(phased("Pending", conditions=[unschedulable]), phased("Running")) == ([], [JOB, JOB])


@pytest.mark.parametrize("change", [Change.MODIFIED, Change.LISTED])
def test_a_pod_that_lost_its_owner_is_dropped_and_not_reported_as_deleted(change: Change) -> None:
    pods = Pods(ObjectEvent(Change.ADDED, pod("p")))
    orphan = {"metadata": {**pod("p")["metadata"], "ownerReferences": []}}
    pods.take(ObjectEvent(change, orphan))
    assert (pods.names(), pods.changed, pods.deleted) == (set(), [JOB], [])
    pods.take(ObjectEvent(Change.DELETED, orphan))
    assert (pods.changed, pods.deleted) == ([], [])


def test_jobs_of_a_namespace_that_was_not_listed_remain() -> None:
    unlisted = ObjectEvent(Change.SYNCED, {}, unlisted=frozenset({JOB.namespace}))
    jobs = Jobs(ObjectEvent(Change.ADDED, job()))
    jobs.take(unlisted)
    assert (jobs.cache.keys(), jobs.changed) == ({JOB}, [])
    jobs.take(SYNCED)
    assert (jobs.cache.keys(), jobs.changed) == (set(), [JOB])


def test_pods_of_a_namespace_that_was_not_listed_remain() -> None:
    changed: list[JobKey] = []
    cache = PodCache(changed.append, lambda *_: None)
    cache.apply(ObjectEvent(Change.ADDED, pod()))
    changed.clear()
    cache.apply(ObjectEvent(Change.SYNCED, {}, unlisted=frozenset({JOB.namespace})))
    assert (set(cache.of(JOB)), changed) == ({"p"}, [])
    cache.apply(SYNCED)
    assert (set(cache.of(JOB)), changed) == (set(), [JOB])

"""Caches of jobs and pods, filled by watches: jobs as objects, pods parsed. They may be behind the API server.

A new list removes objects that it lacks, except in namespaces that could not be listed. A removal is no proof of
deletion, because a list may be older than the watch. Only a DELETED event is proof, and it is passed to `on_deleted`. A
listed object of a known version is not a change: ten thousand pods are listed again every few minutes.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from elasticjob_api.constants import Phase
from elasticjob_operator.model import job_key, objects
from elasticjob_operator.model.cluster_interface import Change, Object, ObjectEvent
from elasticjob_operator.model.job_key import JobKey
from elasticjob_operator.model.pod import Pod, is_progressing, is_same, parse_pod

JobChanged = Callable[[JobKey, Object | None, Object | None], None]
"""Record a changed job: its version in the cache before, and now; None if it was or is not there."""


def is_known(version: str, obj: Object) -> bool:
    """Return whether the object has this version; False without a version."""
    return bool(version) and version == objects.version_of(obj)


def _share_unchanged(known: Mapping[str, Any], obj: Object) -> Object:
    """Return `obj` with equal parts replaced by those of `known`, so that memory holds each part once."""
    return {name: known[name] if known.get(name) == value else value for name, value in obj.items()}


def _intern(before: Object, after: Object) -> Object:
    """Return the job with its unchanged parts shared with the version before."""
    # Each status write makes a new version, in which most parts are the same.
    metadata = _share_unchanged(objects.metadata(before), dict(objects.metadata(after)))
    return _share_unchanged(before, {**after, "metadata": metadata})


def _is_as_whole(known: Object, obj: Object) -> bool:
    """Return whether both are retained to the same extent; memory may have become free for the whole job."""
    return objects.not_retained_reason(known) == objects.not_retained_reason(obj)


class JobCache:
    """Jobs by key."""

    def __init__(self, on_change: JobChanged) -> None:
        self._jobs: dict[JobKey, Object] = {}
        self._listed: set[JobKey] = set()
        self._on_change = on_change

    def apply(self, event: ObjectEvent) -> None:
        """Apply one event of the watch."""
        if event.change is Change.SYNCED:
            self._drop_unlisted(event.unlisted)
            return
        key = job_key.key_of_job(event.object)
        if event.change is Change.LISTED:
            self._listed.add(key)
            known = self._jobs.get(key, {})
            if is_known(objects.version_of(known), event.object) and _is_as_whole(known, event.object):
                return
        before, after = self._jobs.pop(key, None), None
        if event.change is not Change.DELETED:
            after = self._jobs[key] = _intern(before or {}, event.object)
        self._on_change(key, before, after)

    def _drop_unlisted(self, unlisted: frozenset[str]) -> None:
        for key in set(self._jobs) - self._listed:
            if key.namespace not in unlisted:
                self._on_change(key, self._jobs.pop(key), None)
        self._listed.clear()

    def share_status(self, key: JobKey, status: Mapping[str, Any]) -> None:
        """Replace the job's status by this equal one, so that memory holds it once."""
        self._jobs[key]["status"] = status

    def get(self, key: JobKey) -> Object | None:
        """Return the cached job, or None."""
        return self._jobs.get(key)

    def phases(self) -> Iterator[tuple[JobKey, str]]:
        """Return `status.phase` of every cached job; a job without a status is pending."""
        for key, obj in self._jobs.items():
            yield key, str((obj.get("status") or {}).get("phase") or Phase.PENDING)

    def keys(self) -> set[JobKey]:
        """Return the keys of all cached jobs."""
        return set(self._jobs)

    def __len__(self) -> int:
        return len(self._jobs)


class PodCache:
    """Pods by job and name, parsed once when they change; pods that belong to no job are not cached.

    `on_progress` is called instead of `on_change` if a pod only proceeds with its start.
    """

    def __init__(
        self,
        on_change: Callable[[JobKey], None],
        on_deleted: Callable[[JobKey, str, str], None],
        on_progress: Callable[[JobKey], None] | None = None,
    ) -> None:
        self._pods: dict[JobKey, dict[str, Pod]] = defaultdict(dict)
        self._listed: set[tuple[JobKey, str]] = set()
        self._on_change = on_change
        self._on_deleted = on_deleted
        self._on_progress = on_progress or on_change

    def apply(self, event: ObjectEvent) -> None:
        """Apply one event of the watch."""
        if event.change is Change.SYNCED:
            self._drop_unlisted(event.unlisted)
            return
        key, name = job_key.key_of_pod(event.object), objects.name_of(event.object)
        if key is None:
            self._forget_foreign(event.object)
            return
        if event.change is Change.DELETED:
            self._forget(key, name)
            self._on_deleted(key, name, objects.uid_of(event.object))
            self._on_change(key)
            return
        before = self.of(key).get(name)
        if event.change is Change.LISTED:
            self._listed.add((key, name))
            if before is not None and is_known(before.version, event.object):
                return
        after = self._pods[key][name] = parse_pod(event.object)
        self._notify(key, before, after)

    def _notify(self, key: JobKey, before: Pod | None, after: Pod) -> None:
        if is_progressing(before, after):
            self._on_progress(key)
        elif not is_same(before, after):
            self._on_change(key)

    def _forget_foreign(self, obj: Object) -> None:
        """Remove a pod that no longer belongs to its job; a user who orphaned it wants it to remain."""
        key, name = job_key.key_of_labels(obj), objects.name_of(obj)
        if key is not None and name in self.of(key):
            self._forget(key, name)
            self._on_change(key)

    def _drop_unlisted(self, unlisted: frozenset[str]) -> None:
        for key, name in {(key, name) for key, pods in self._pods.items() for name in pods} - self._listed:
            if key.namespace not in unlisted:
                self._forget(key, name)
                self._on_change(key)
        self._listed.clear()

    def _forget(self, key: JobKey, name: str) -> None:
        pods = self._pods[key]
        pods.pop(name, None)
        if not pods:
            del self._pods[key]

    def of(self, key: JobKey) -> Mapping[str, Pod]:
        """Return the job's pods by name."""
        return self._pods.get(key, {})

    def keys(self) -> set[JobKey]:
        """Return the keys of all jobs that have pods."""
        return set(self._pods)

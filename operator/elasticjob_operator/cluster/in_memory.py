"""A cluster in memory: the guarantees of the API server and its garbage collector that the operator relies on.

`elasticjob run` and tests use it; the same contract tests run against it and a real API server. It owns the objects:
arguments and results are copied. Every change is one step of the event loop, so readers see it whole. Each watch
delivers all changes after its list, in order. Besides the methods of `Cluster` it has those of a kubelet (`bind_pod`,
`patch_pod_status`, `remove_pod`) and of kubectl (`patch_spec`, `annotate`). It does not know ElasticJobs, and validates
nothing. Uids and random name suffixes come from `ids`, the time from `clock`.
"""

import asyncio
import copy
import itertools
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from typing import Any

from elasticjob_operator.cluster import owned
from elasticjob_operator.errors import AlreadyExists, ClusterError, Conflict
from elasticjob_operator.model import objects
from elasticjob_operator.model.cluster_interface import Change, Object, ObjectEvent, Resource
from elasticjob_operator.model.timestamps import to_rfc3339

_Key = tuple[str, str]


def sequential_ids() -> Iterator[str]:
    """Return uids that are the same in every run: `00000001-0000-0000-0000-000000000000`, …."""
    return (f"{n:08x}-0000-0000-0000-000000000000" for n in itertools.count(1))


class InMemoryCluster:
    """An implementation of `Cluster` in memory."""

    def __init__(self, *, clock: Callable[[], float] = time.time, ids: Iterator[str] | None = None) -> None:
        self._clock = clock
        self._ids = sequential_ids() if ids is None else ids
        self._revision = 0
        self._uids: set[str] = set()
        self._claimed: set[str] = set()
        """Fields of a status that have a field manager of their own."""
        self._stores: dict[Resource, dict[_Key, Object]] = {resource: {} for resource in Resource}
        self._watchers: dict[Resource, list[asyncio.Queue[ObjectEvent]]] = defaultdict(list)

    # The methods of `Cluster`.

    async def create(self, resource: Resource, body: Object) -> Object:
        """Store a new object; `metadata.generateName` is completed. An object without existing owners is deleted."""
        return self._create(resource, body)

    async def create_strictly(self, resource: Resource, body: Object) -> Object:
        """Create an object as `create` does: without schemas, every field is known."""
        return await self.create(resource, body)

    async def apply(self, resource: Resource, body: Object) -> Object:
        """Create an object, or merge `body` into the existing one if it has the same owner; lists are replaced."""
        current = self._stores[resource].get(_key_of(body))
        if current is None:
            return self._create(resource, body)
        if objects.owner_uids(body):
            owned.bind_to_existing(resource, body, current)
        self._store(resource, objects.merge_patch(current, body))
        return copy.deepcopy(self._stores[resource][_key_of(body)])

    async def patch_status(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        status: Mapping[str, Any],
        *,
        uid: str | None = None,
        version: str | None = None,  # noqa: ARG002 -- every step here is atomic, so the uid is enough
    ) -> None:
        """Replace the status except for claimed fields; do nothing if the object does not exist or has another uid."""
        current = self._stores[resource].get((namespace, name))
        if current is not None and uid in {None, objects.uid_of(current)}:
            before = current.get("status") or {}
            claimed = {field: before[field] for field in self._claimed if field in before}
            self._store(resource, {**current, "status": {**claimed, **status}})

    async def claim(self, resource: Resource, namespace: str, name: str, own: Mapping[str, Any], version: str) -> str:
        """Merge fields into the status and return the object's version; Conflict if the object has another version."""
        current = self._stores[resource].get((namespace, name))
        if current is None:
            return version
        if objects.version_of(current) != version:
            raise Conflict(f"claiming {resource.value}/{name}: it has changed since {version}")
        self._claimed |= set(own)
        self._store(resource, objects.merge_patch(current, {"status": own}))
        return objects.version_of(self._stores[resource][namespace, name])

    async def delete(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        *,
        uid: str | None = None,
        version: str | None = None,
        grace_s: float | None = None,
    ) -> None:
        """Delete an object: a running pod after its grace period, any other at once.

        Raises:
            Conflict: the object has another uid or version.
        """
        current = self._stores[resource].get((namespace, name))
        if current is None:
            return
        if uid is not None and uid != objects.uid_of(current):
            raise Conflict(f"deleting {resource.value}/{name}: its uid is {objects.uid_of(current)}, not {uid}")
        if version is not None and version != objects.version_of(current):
            raise Conflict(f"deleting {resource.value}/{name}: it has changed since {version}")
        self._delete(resource, current, grace_s)

    async def delete_collection(self, resource: Resource, namespace: str, selector: Mapping[str, str]) -> None:
        """Delete every object of the namespace that has all these labels."""
        for (its_namespace, _), obj in list(self._stores[resource].items()):
            if its_namespace == namespace and objects.matches(obj, selector):
                self._delete(resource, obj, None)

    async def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        """Return a copy of the object, or None."""
        return copy.deepcopy(self._stores[resource].get((namespace or "default", name)))

    async def watch(self, resource: Resource) -> AsyncGenerator[ObjectEvent, None]:
        """Return all objects, SYNCED, then every change without end; any number of watches may run."""
        queue: asyncio.Queue[ObjectEvent] = asyncio.Queue()
        self._watchers[resource].append(queue)
        listing = self.objects(resource)
        try:
            for obj in listing:
                yield ObjectEvent(Change.LISTED, obj)
            yield ObjectEvent(Change.SYNCED, {})
            while True:
                yield await queue.get()
        finally:
            self._watchers[resource].remove(queue)

    # A further method of `SecretStore`.

    async def replace(self, resource: Resource, body: Object) -> Object | None:
        """Replace an object by `body`, except for metadata that the cluster sets."""
        current = self._stores[resource].get(_key_of(body))
        if current is None:
            return None
        wanted, stamps = objects.metadata(body).get("resourceVersion"), objects.metadata(current)
        if wanted not in {None, stamps["resourceVersion"]}:
            raise Conflict(f"replacing {resource.value}/{objects.name_of(body)}: it has changed since {wanted}")
        fixed = {field: stamps[field] for field in ("uid", "generation", "creationTimestamp", "resourceVersion")}
        self._store(resource, {**copy.deepcopy(body), "metadata": {**objects.metadata(body), **fixed}})
        return copy.deepcopy(self._stores[resource][_key_of(body)])

    # Methods for a kubelet. If the pod does not exist or has another uid, they do nothing and raise no error: the
    # kubelet's watch reports it.

    async def bind_pod(self, namespace: str, name: str, uid: str, node_name: str) -> None:
        """Schedule the pod: from now on its deletion waits for `remove_pod`."""
        if pod := self._pod(namespace, name, uid):
            self._store(Resource.POD, objects.merge_patch(pod, {"spec": {"nodeName": node_name}}))

    async def patch_pod_status(self, namespace: str, name: str, uid: str, status: Mapping[str, Any]) -> None:
        """Merge into the pod's status; lists are replaced."""
        if pod := self._pod(namespace, name, uid):
            self._store(Resource.POD, objects.merge_patch(pod, {"status": status}))

    async def remove_pod(self, namespace: str, name: str, uid: str) -> None:
        """Delete the object at once, because no process of the pod runs any more."""
        if pod := self._pod(namespace, name, uid):
            self._remove(Resource.POD, pod)

    # Methods for kubectl and for tests.

    async def patch_spec(self, resource: Resource, namespace: str, name: str, patch: Mapping[str, Any]) -> Object:
        """Merge into the spec (`kubectl scale`, suspend); ClusterError if the object does not exist."""
        return self._patch(resource, (namespace, name), {"spec": patch})

    async def annotate(self, resource: Resource, namespace: str, name: str, annotations: Mapping[str, Any]) -> Object:
        """Merge into the annotations; None removes one. Raise ClusterError if the object does not exist."""
        return self._patch(resource, (namespace, name), {"metadata": {"annotations": annotations}})

    def objects(self, resource: Resource) -> list[Object]:
        """Return copies of all objects of a kind, by namespace and name."""
        return [copy.deepcopy(obj) for _, obj in sorted(self._stores[resource].items())]

    # Internal methods.

    def _create(self, resource: Resource, body: Object) -> Object:
        obj = self._with_metadata(copy.deepcopy(body))
        if _key_of(obj) in self._stores[resource]:
            raise AlreadyExists(f"creating {resource.value}/{objects.name_of(obj)}: an object of this name exists")
        self._put(resource, obj, Change.ADDED)
        created = copy.deepcopy(obj)
        if (owners := objects.owner_uids(obj)) and not owners & self._uids:
            self._delete(resource, obj, None)
        return created

    def _with_metadata(self, body: Object) -> Object:
        uid = next(self._ids)
        given = dict(objects.metadata(body))
        name = given.get("name") or f"{given.pop('generateName', '')}{uid[:8]}"
        stamps = {"uid": uid, "generation": 1, "creationTimestamp": to_rfc3339(self._clock())}
        namespace = objects.namespace_of(body)
        return {**body, "metadata": {**given, "name": name, "namespace": namespace, **stamps}}

    def _patch(self, resource: Resource, key: _Key, patch: Mapping[str, Any]) -> Object:
        current = self._stores[resource].get(key)
        if current is None:
            raise ClusterError(f"patching {resource.value}/{key[1]} in {key[0]}: not found")
        self._store(resource, objects.merge_patch(current, copy.deepcopy(patch)))
        return copy.deepcopy(self._stores[resource][key])

    def _pod(self, namespace: str, name: str, uid: str) -> Object | None:
        pod = self._stores[Resource.POD].get((namespace, name))
        return pod if pod is not None and objects.uid_of(pod) == uid else None

    def _store(self, resource: Resource, changed: Object) -> None:
        """Store a changed object; an unchanged one is not written, as with the API server."""
        current = self._stores[resource][_key_of(changed)]
        if changed == current:
            return
        if changed.get("spec") != current.get("spec"):
            generation = objects.metadata(current).get("generation", 1) + 1
            changed = objects.merge_patch(changed, {"metadata": {"generation": generation}})
        self._put(resource, copy.deepcopy(changed), Change.MODIFIED)

    def _put(self, resource: Resource, obj: Object, change: Change) -> None:
        self._revision += 1
        obj["metadata"]["resourceVersion"] = str(self._revision)
        if change is Change.DELETED:
            del self._stores[resource][_key_of(obj)]
            self._uids.discard(objects.uid_of(obj))
        else:
            self._stores[resource][_key_of(obj)] = obj
            self._uids.add(objects.uid_of(obj))
        for queue in self._watchers[resource]:
            queue.put_nowait(ObjectEvent(change, copy.deepcopy(obj)))

    def _delete(self, resource: Resource, obj: Object, grace_s: float | None) -> None:
        grace = _deletion_grace_s(obj, grace_s) if resource is Resource.POD else 0.0
        if grace <= 0:
            self._remove(resource, obj)
            return
        asked = objects.metadata(obj).get("deletionGracePeriodSeconds")
        if asked is not None and asked <= grace:
            return  # a second request may only shorten the grace
        stamps = {"deletionTimestamp": to_rfc3339(self._clock() + grace), "deletionGracePeriodSeconds": int(grace)}
        self._store(resource, objects.merge_patch(obj, {"metadata": stamps}))

    def _remove(self, resource: Resource, obj: Object) -> None:
        self._put(resource, copy.deepcopy(obj), Change.DELETED)
        self._garbage_collect(objects.uid_of(obj))

    def _garbage_collect(self, uid: str) -> None:
        for resource, store in self._stores.items():
            for dependent in list(store.values()):
                owners = objects.owner_uids(dependent)
                if uid in owners and not owners & self._uids:
                    self._delete(resource, dependent, None)


def _key_of(obj: Object) -> _Key:
    return objects.namespace_of(obj), objects.name_of(obj)


def _deletion_grace_s(pod: Object, asked_s: float | None) -> float:
    """Return the grace period of a pod; 0 for one that was never scheduled or has ended, because no process runs."""
    spec = pod.get("spec") or {}
    if not spec.get("nodeName") or objects.pod_phase(pod) in objects.ENDED_PHASES:
        return 0.0
    return float(spec.get("terminationGracePeriodSeconds", objects.DEFAULT_GRACE_S)) if asked_s is None else asked_s

"""A cluster in this process: what the API server and its garbage collector promise, as far as we use them.

`elasticjob run` and tests use it; the same contract tests hold it against a real API server. It owns the
objects: what goes in and out is copied. Every change is one step of the event loop, so it is seen whole, and
each watch sees all changes after its listing, in order. Beside `Cluster` it has what a kubelet does
(`bind_pod`, `patch_pod_status`, `remove_pod`) and what kubectl does (`patch_spec`, `annotate`). It knows
nothing of ElasticJobs and validates nothing. uids and random name endings come from `ids`, time from `clock`.
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
    """`00000001-0000-0000-0000-000000000000`, …: uids that are the same in every run."""
    return (f"{n:08x}-0000-0000-0000-000000000000" for n in itertools.count(1))


class InMemoryCluster:
    """An implementation of `protocol.Cluster` without a cluster."""

    def __init__(self, *, clock: Callable[[], float] = time.time, ids: Iterator[str] | None = None) -> None:
        self._clock = clock
        self._ids = sequential_ids() if ids is None else ids
        self._revision = 0
        self._uids: set[str] = set()
        self._claimed: set[str] = set()
        """Fields of a status that have an owner of their own."""
        self._stores: dict[Resource, dict[_Key, Object]] = {resource: {} for resource in Resource}
        self._watchers: dict[Resource, list[asyncio.Queue[ObjectEvent]]] = defaultdict(list)

    # What the operator asks: protocol.Cluster.

    async def create(self, resource: Resource, body: Object) -> Object:
        """Store a new object; `metadata.generateName` is completed. An object whose owners are gone goes at once."""
        return self._create(resource, body)

    async def create_strictly(self, resource: Resource, body: Object) -> Object:
        """As `create`: it has no schemas, so it knows no unknown fields."""
        return await self.create(resource, body)

    async def apply(self, resource: Resource, body: Object) -> Object:
        """Create, or merge `body` into what is there, if that has the same owner; lists are replaced."""
        current = self._stores[resource].get(_key_of(body))
        if current is None:
            return self._create(resource, body)
        if objects.owner_uids(body):
            owned.over(resource, body, current)
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
        """Replace the status but for what was claimed; nothing happens when the object is gone, or is another one."""
        current = self._stores[resource].get((namespace, name))
        if current is not None and uid in {None, objects.uid_of(current)}:
            before = current.get("status") or {}
            kept = {field: before[field] for field in self._claimed if field in before}
            self._store(resource, {**current, "status": {**kept, **status}})

    async def claim(self, resource: Resource, namespace: str, name: str, own: Mapping[str, Any], version: str) -> str:
        """Merge into the status; Conflict when the object is not of this version any more."""
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
        """Delete: pods gracefully when a kubelet has them, anything else at once. Conflict when the uid differs."""
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
        """A copy of the object, or None."""
        return copy.deepcopy(self._stores[resource].get((namespace or "default", name)))

    async def watch(self, resource: Resource) -> AsyncGenerator[ObjectEvent, None]:
        """Everything there is, SYNCED, then every change for ever; any number may watch at the same time."""
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

    # And for Secrets: protocol.Vault.

    async def replace(self, resource: Resource, body: Object) -> Object | None:
        """Put `body` in the place of what is there; what the cluster stamps stays."""
        current = self._stores[resource].get(_key_of(body))
        if current is None:
            return None
        wanted, stamps = objects.metadata(body).get("resourceVersion"), objects.metadata(current)
        if wanted not in {None, stamps["resourceVersion"]}:
            raise Conflict(f"replacing {resource.value}/{objects.name_of(body)}: it has changed since {wanted}")
        kept = {field: stamps[field] for field in ("uid", "generation", "creationTimestamp", "resourceVersion")}
        self._store(resource, {**copy.deepcopy(body), "metadata": {**objects.metadata(body), **kept}})
        return copy.deepcopy(self._stores[resource][_key_of(body)])

    # What a kubelet does. A pod that is gone, or is another of the same name, is left alone without an error:
    # the kubelet learns of it through its watch.

    async def bind_pod(self, namespace: str, name: str, uid: str, node_name: str) -> None:
        """Schedule the pod: from now on its deletion waits for `remove_pod`."""
        if pod := self._pod(namespace, name, uid):
            self._store(Resource.POD, objects.merge_patch(pod, {"spec": {"nodeName": node_name}}))

    async def patch_pod_status(self, namespace: str, name: str, uid: str, status: Mapping[str, Any]) -> None:
        """Merge into the pod's status; lists are replaced."""
        if pod := self._pod(namespace, name, uid):
            self._store(Resource.POD, objects.merge_patch(pod, {"status": status}))

    async def remove_pod(self, namespace: str, name: str, uid: str) -> None:
        """Confirm that nothing of the pod runs any more; the object goes, whatever its grace."""
        if pod := self._pod(namespace, name, uid):
            self._remove(Resource.POD, pod)

    # What kubectl does, and what tests look at.

    async def patch_spec(self, resource: Resource, namespace: str, name: str, patch: Mapping[str, Any]) -> Object:
        """Merge into the spec (`kubectl scale`, suspend); ClusterError when the object is not there."""
        return self._patch(resource, (namespace, name), {"spec": patch})

    async def annotate(self, resource: Resource, namespace: str, name: str, annotations: Mapping[str, Any]) -> Object:
        """Merge into the annotations; None removes one. ClusterError when the object is not there."""
        return self._patch(resource, (namespace, name), {"metadata": {"annotations": annotations}})

    def objects(self, resource: Resource) -> list[Object]:
        """Copies of all objects of a kind, by namespace and name."""
        return [copy.deepcopy(obj) for _, obj in sorted(self._stores[resource].items())]

    # Inside.

    def _create(self, resource: Resource, body: Object) -> Object:
        obj = self._with_metadata(copy.deepcopy(body))
        if _key_of(obj) in self._stores[resource]:
            raise AlreadyExists(f"creating {resource.value}/{objects.name_of(obj)}: an object of this name is there")
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
        """Put a changed object; a change of nothing is no write, as with the API server."""
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
    """Nothing runs of a pod that was never scheduled or has ended: it goes at once."""
    spec = pod.get("spec") or {}
    if not spec.get("nodeName") or objects.pod_phase(pod) in objects.ENDED_PHASES:
        return 0.0
    return float(spec.get("terminationGracePeriodSeconds", objects.DEFAULT_GRACE_S)) if asked_s is None else asked_s

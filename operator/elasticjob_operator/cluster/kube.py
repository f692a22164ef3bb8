"""An implementation of `Cluster` for a real API server: reads and writes of single objects as plain dictionaries.

Pods are created, not applied, so that an existing name is an error. Services and statuses are applied with one field
manager. `list_watch` has the lists and watches.
"""

import json
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from elasticjob_operator.cluster import owned
from elasticjob_operator.cluster.api_errors import NotFound
from elasticjob_operator.cluster.connection import FIELD_MANAGER, Connection
from elasticjob_operator.cluster.kinds import path_of
from elasticjob_operator.cluster.status_patch import StatusPatcher
from elasticjob_operator.model import objects
from elasticjob_operator.model.cluster_interface import Object, Resource

log = logging.getLogger(__name__)


class KubeCluster:
    """The objects of one API server."""

    def __init__(self, connection: Connection, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._connection = connection
        self._statuses = StatusPatcher(self._apply, self.get, clock)

    async def create(self, resource: Resource, body: Object) -> Object:
        """Create an object and return it as stored."""
        path = path_of(resource, body["metadata"].get("namespace", "default"))
        return await self._connection.call("POST", path, resource, body=body)

    async def create_strictly(self, resource: Resource, body: Object) -> Object:
        """Create an object as `create` does, but refuse unknown fields instead of dropping them."""
        path = path_of(resource, body["metadata"].get("namespace", "default"))
        return await self._connection.call("POST", path, resource, body=body, query={"fieldValidation": "Strict"})

    async def apply(self, resource: Resource, body: Object) -> Object:
        """Apply an object on the server's side, and return it as stored; without a write if nothing would change.

        Raises:
            Conflict: another field manager owns one of the fields, or the existing object has another owner.
        """
        path = path_of(resource, body["metadata"].get("namespace", "default"), body["metadata"]["name"])
        if objects.owner_uids(body) and (existing := await self._look(resource, path)) is not None:
            body = owned.bind_to_existing(resource, body, existing)
            if owned.is_applied(body, existing, FIELD_MANAGER):
                return existing
        stored: Object = json.loads(await self._apply(resource, path, body, force=False))
        return stored

    async def _look(self, resource: Resource, path: str) -> Object | None:
        """Return the object, or None if it does not exist."""
        # An empty patch: a role that may apply Services then needs no right to read all of them.
        try:
            return await self._connection.call(
                "PATCH", path, resource, body={}, content_type="application/merge-patch+json"
            )
        except NotFound:
            return None

    async def replace(self, resource: Resource, body: Object) -> Object | None:
        """Overwrite an object and return it as stored; None if it does not exist."""
        path = path_of(resource, body["metadata"].get("namespace", "default"), body["metadata"]["name"])
        try:
            return await self._connection.call("PUT", path, resource, body=body)
        except NotFound:
            return None

    async def patch_status(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        status: Mapping[str, Any],
        *,
        uid: str | None = None,
        version: str | None = None,
    ) -> None:
        """Apply the status; fields of our last status that this one lacks are removed."""
        await self._statuses.patch(resource, namespace, name, status, uid=uid, version=version)

    async def claim(self, resource: Resource, namespace: str, name: str, own: Mapping[str, Any], version: str) -> str:
        """Apply these fields of the status with a separate field manager; return the object's version."""
        return await self._statuses.claim(resource, namespace, name, own, version)

    async def _apply(
        self, resource: Resource | None, path: str, body: Object, *, force: bool, manager: str = FIELD_MANAGER
    ) -> bytes:
        query = {"fieldManager": manager, "force": "true" if force else "false"}
        kind = "application/apply-patch+yaml"
        return await self._connection.send("PATCH", path, resource, query=query, body=body, content_type=kind)

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
        """Delete one object; with `uid` or `version`, only if it still has them."""
        body: Object = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        if wanted := {"uid": uid, "resourceVersion": version} if version else {"uid": uid} if uid else {}:
            body["preconditions"] = {field: value for field, value in wanted.items() if value}
        if grace_s is not None:
            body["gracePeriodSeconds"] = int(grace_s)
        try:
            await self._connection.send("DELETE", path_of(resource, namespace, name), resource, body=body)
        except NotFound:
            log.debug("%s %s/%s did not exist", resource.value, namespace, name)

    async def delete_collection(self, resource: Resource, namespace: str, selector: Mapping[str, str]) -> None:
        """Delete all objects that have these labels."""
        labels = ",".join(f"{name}={value}" for name, value in selector.items())
        await self._connection.send("DELETE", path_of(resource, namespace), query={"labelSelector": labels})

    async def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        """Return one object, read by quorum; None if it does not exist."""
        try:
            # Jobs wait for every read, so it does not count against the limit of statuses.
            limited_as = Resource.LEASE if resource is Resource.LEASE else None
            return await self._connection.call("GET", path_of(resource, namespace, name), limited_as)
        except NotFound:
            return None

    async def cluster_id(self) -> str:
        """Return the uid of the kube-system namespace, which identifies the cluster."""
        found = await self._connection.call("GET", "/api/v1/namespaces/kube-system")
        return str(found["metadata"]["uid"])

"""Writes of statuses: only to the object with the expected uid, and only fields that its CRD declares."""

import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from elasticjob_operator.cluster.api_errors import NotFound
from elasticjob_operator.cluster.kinds import KINDS, path_of
from elasticjob_operator.cluster.unknown_fields import UnknownFields, is_unknown_field
from elasticjob_operator.errors import ClusterUnavailable, Conflict
from elasticjob_operator.model import objects
from elasticjob_operator.model.cluster_interface import Object, Resource

CLAIM_MANAGER = "elasticjob-operator-claim"
FORGET_S = 300.0
"""Time after which unknown fields are sent again, because the CRD may have been updated."""

log = logging.getLogger(__name__)


Apply = Callable[..., Awaitable[bytes]]
"""Apply an object on the server's side and return it as text."""
Get = Callable[[Resource, str, str], Awaitable[Object | None]]
"""Return one object, read by quorum."""


class StatusPatcher:
    """The status subresource of one API server."""

    def __init__(self, apply: Apply, get: Get, clock: Callable[[], float]) -> None:
        self._apply = apply
        self._get = get
        self._clock = clock
        self._unknown_fields = UnknownFields()
        self._forget_at_s = float("-inf")

    async def patch(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        status: Mapping[str, Any],
        *,
        uid: str | None,
        version: str | None,
    ) -> None:
        """Apply the status; with `uid`, only to the object with that uid. `version` is the last known version.

        The API server ignores a uid in the patch of a status, but not a resourceVersion. So the patch names the
        version. After a conflict the uid is compared, and the next patch names the new version.
        """
        if uid is None:
            await self._apply_known_fields(resource, namespace, name, status, None)
            return
        while (version := version or await self._version_of(resource, namespace, name, uid)) is not None:
            try:
                await self._apply_known_fields(resource, namespace, name, status, version)
            except Conflict:
                version = None  # the object was changed or replaced
            else:
                return
        log.debug("%s %s/%s of uid %s is deleted; its status is not written", resource.value, namespace, name, uid)

    async def _version_of(self, resource: Resource, namespace: str, name: str, uid: str) -> str | None:
        """Return the current version of the object; None if it does not exist or has another uid."""
        found = await self._get(resource, namespace, name)
        return objects.version_of(found) if found is not None and objects.uid_of(found) == uid else None

    async def _apply_known_fields(
        self, resource: Resource, namespace: str, name: str, status: Mapping[str, Any], version: str | None
    ) -> None:
        """Apply the status without the fields that the CRD does not declare; one such field fails the whole apply."""
        self._forget_when_due()
        while True:
            known = self._unknown_fields.without_unknown(status)
            try:
                await self._apply_status(resource, namespace, name, known, version)
            except ClusterUnavailable as error:
                # The write of another job's status may have recorded the same field in the meantime.
                if not self._learn_unknown_field(error) and self._unknown_fields.without_unknown(status) == known:
                    raise
            else:
                return

    def _forget_when_due(self) -> None:
        now_s = self._clock()
        if now_s >= self._forget_at_s:
            self._unknown_fields.forget()
            self._forget_at_s = now_s + FORGET_S

    def _learn_unknown_field(self, error: ClusterUnavailable) -> bool:
        """Return whether the error names fields that were not known to be undeclared; they are logged once."""
        if unknown := self._unknown_fields.learn(str(error)):
            fields = ", ".join(f"status.{field}" for field in unknown)
            log.warning("this cluster's CRD has no %s: apply crds/elasticjob.yaml of this version", fields)
        return bool(unknown)

    async def _apply_status(
        self, resource: Resource, namespace: str, name: str, status: Mapping[str, Any], version: str | None
    ) -> None:
        kind = KINDS[resource]
        metadata = {"name": name, "resourceVersion": version} if version else {"name": name}
        body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "status": dict(status)}
        try:
            await self._apply(resource, f"{path_of(resource, namespace, name)}/status", body, force=True)
        except NotFound:
            log.debug("%s %s/%s is deleted; its status is not written", kind.kind, namespace, name)

    async def claim(self, resource: Resource, namespace: str, name: str, own: Mapping[str, Any], version: str) -> str:
        """Apply these fields with a separate field manager; return the object's version afterwards.

        If an older CRD does not declare the fields, nothing is stored, and the version is returned unchanged.

        Raises:
            Conflict: `version` is not the current version.
        """
        kind = KINDS[resource]
        body = {"apiVersion": kind.api_version, "kind": kind.kind, "status": dict(own)}
        body["metadata"] = {"name": name, "resourceVersion": version}
        path = f"{path_of(resource, namespace, name)}/status"
        try:
            return objects.version_of(
                json.loads(await self._apply(None, path, body, force=True, manager=CLAIM_MANAGER))
            )
        except NotFound:
            log.debug("%s %s/%s is deleted; its status is not claimed", kind.kind, namespace, name)
        except ClusterUnavailable as error:
            if not is_unknown_field(str(error)):
                raise
            self._learn_unknown_field(error)
        return version

"""What the operator may ask of a cluster: six calls and one stream, over plain dictionaries.

`memory.MemoryCluster` keeps objects in this process (for `elasticjob run` and for tests), `kube.KubeCluster`
is the API server. Objects are Kubernetes' own JSON; nothing here knows what an ElasticJob means. Every method
may raise `errors.ClusterError` and nothing else of the cluster's.
"""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

Object = dict[str, Any]


class Resource(Enum):
    """Kinds that the operator touches."""

    JOB = "elasticjobs"
    POD = "pods"
    SERVICE = "services"
    EVENT = "events"
    DISRUPTION_BUDGET = "poddisruptionbudgets"
    NODE = "nodes"
    PERSISTENT_VOLUME_CLAIM = "persistentvolumeclaims"
    PERSISTENT_VOLUME = "persistentvolumes"
    LEASE = "leases"
    CONFIG_MAP = "configmaps"
    SECRET = "secrets"  # noqa: S105 -- the name of a kind


class Change(Enum):
    """What happened to an object; LISTED marks one of the first listing, SYNCED the end of that listing."""

    LISTED = "LISTED"
    SYNCED = "SYNCED"
    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


@dataclass(frozen=True, slots=True)
class ObjectEvent:
    """One change of one object; SYNCED has none."""

    change: Change
    object: Object
    unlisted: frozenset[str] = frozenset()
    """Of SYNCED: namespaces that could not be listed; what is known of them is neither confirmed nor gone."""


class SecretStore(Protocol):
    """A cluster as far as whole objects are concerned: Secrets with certificates, and the Lease of an election."""

    async def create(self, resource: Resource, body: Object) -> Object:
        """Create an object and return it as stored; AlreadyExists when its name is taken."""

    async def replace(self, resource: Resource, body: Object) -> Object | None:
        """Overwrite an object; None when it is not there, Conflict when `body` names a version that it has no more."""

    async def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        """Read one object from the source of truth, never from a cache."""


class Cluster(Protocol):
    """One cluster, as far as the operator needs it."""

    async def create(self, resource: Resource, body: Object) -> Object:
        """Create an object and return it as stored; AlreadyExists when its name is taken."""

    async def create_strictly(self, resource: Resource, body: Object) -> Object:
        """As `create`; InvalidObject also when `body` has a field that the API server does not know."""

    async def apply(self, resource: Resource, body: Object) -> Object:
        """Server-side apply with the operator as field manager; creates or updates.

        An object with an owner is applied only over one of the same owner: Conflict when it is somebody else's.
        """

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
        """Replace what we own of an object's status; no error when the object is gone.

        With `uid` only of that very one: another of the same name counts as gone. `version` is the last one known.
        """

    async def claim(self, resource: Resource, namespace: str, name: str, own: Mapping[str, Any], version: str) -> str:
        """Set these fields of the status, which `patch_status` then leaves as they are; return the object's version.

        No error if the object is gone; then the version is the one that was given.

        Conflict when it is not of this version any more: of two that claim it, one succeeds.
        """

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
        """Delete one object, with `uid` or `version` only that very one (else Conflict); no error when it is gone."""

    async def delete_collection(self, resource: Resource, namespace: str, selector: Mapping[str, str]) -> None:
        """Delete all objects whose labels have all of `selector`."""

    async def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        """Read one object from the source of truth, never from a cache."""

    def watch(self, resource: Resource) -> AsyncGenerator[ObjectEvent, None]:
        """All objects as LISTED, one SYNCED, then every change; survives reconnects by listing anew."""

"""The interface of a cluster as the operator uses it: calls, and a stream of events, over plain dictionaries.

`in_memory.InMemoryCluster` has both, for `elasticjob run` and tests. `kube.KubeCluster` sends the calls to the API
server, and `informers.reflector` makes the stream from its lists and watches. Objects are Kubernetes' own JSON; no
code here knows the meaning of an ElasticJob. Methods raise no errors of the cluster but `errors.ClusterError`.
"""

from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

Object = dict[str, Any]


class Resource(Enum):
    """The kinds of objects that the operator uses."""

    JOB = "elasticjobs"
    POD = "pods"
    SERVICE = "services"
    EVENT = "events"
    DISRUPTION_BUDGET = "poddisruptionbudgets"
    NODE = "nodes"
    NAMESPACE = "namespaces"
    PERSISTENT_VOLUME_CLAIM = "persistentvolumeclaims"
    PERSISTENT_VOLUME = "persistentvolumes"
    LEASE = "leases"
    CONFIG_MAP = "configmaps"
    SECRET = "secrets"  # noqa: S105 -- the name of a kind


class Change(Enum):
    """The kind of a change; LISTED marks an object of the first list, SYNCED the end of that list."""

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
    """With SYNCED: namespaces that could not be listed, whose known objects are neither confirmed nor gone."""


Watch = Callable[[Resource], AsyncGenerator[ObjectEvent, None]]
"""Return all objects as LISTED, one SYNCED, then every change. Another list, with its SYNCED, may come at any time."""


class SecretStore(Protocol):
    """The calls for whole objects: Secrets with certificates, and the Lease of an election."""

    async def create(self, resource: Resource, body: Object) -> Object:
        """Create an object and return it as stored; AlreadyExists if its name is taken."""

    async def replace(self, resource: Resource, body: Object) -> Object | None:
        """Replace an object; return None if it does not exist. Conflict if it has another version than `body`."""

    async def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        """Read one object from the API server, never from a cache."""


class Cluster(Protocol):
    """One cluster, as far as the operator needs it."""

    async def create(self, resource: Resource, body: Object) -> Object:
        """Create an object and return it as stored; AlreadyExists if its name is taken."""

    async def create_strictly(self, resource: Resource, body: Object) -> Object:
        """Create an object with strict validation; InvalidObject also for a field that the API server does not know."""

    async def apply(self, resource: Resource, body: Object) -> Object:
        """Create or update an object by server-side apply, with the operator as field manager.

        An object with an owner is applied only over an object of the same owner; Conflict if it has another owner.
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
        """Replace the operator's own fields of an object's status; no error if the object is gone.

        With `uid`, another object of the same name counts as gone. `version` is the last known one.
        """

    async def claim(self, resource: Resource, namespace: str, name: str, own: Mapping[str, Any], version: str) -> str:
        """Set fields of the status that `patch_status` does not change; return the object's version.

        If the object is gone, there is no error, and the given version is returned.

        Conflict if the object does not have this version any more: of two claims one succeeds.
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
        """Delete one object; no error if it is gone.

        Conflict if `uid` or `version` is given and the object has another one.
        """

    async def delete_collection(self, resource: Resource, namespace: str, selector: Mapping[str, str]) -> None:
        """Delete all objects that have all labels of `selector`."""

    async def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        """Read one object from the API server, never from a cache."""

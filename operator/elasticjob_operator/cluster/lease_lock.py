"""The Lease of `coordination.k8s.io/v1` for the election of the operator's leader, as client-go's LeaseLock.

A write names the resourceVersion that was read last. So if two candidates write at the same time, one gets Conflict.
The times in a Lease are only for users: no candidate compares them with its clock.
"""

import copy
import math
from collections.abc import Callable
from datetime import UTC, datetime

from elasticjob_operator.errors import Conflict
from elasticjob_operator.model import objects
from elasticjob_operator.model.cluster_interface import Object, Resource, SecretStore
from elasticjob_operator.model.lease import Lease

API_VERSION = "coordination.k8s.io/v1"
_MAX_DURATION_S = 1.0
"""Duration of a released Lease; the API server requires more than 0."""


class LeaseLock:
    """One Lease, read and written for the candidate `identity`; `clock` is the wall clock."""

    def __init__(
        self, cluster: SecretStore, *, namespace: str, name: str, identity: str, clock: Callable[[], float]
    ) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._name = name
        self._clock = clock
        self._object: Object | None = None
        """The Lease as it was last read or written."""
        self.identity = identity

    def __str__(self) -> str:
        return f"lease {self._namespace}/{self._name}"

    async def read(self) -> Lease | None:
        """Return the Lease, or None if it does not exist; raises ClusterError."""
        self._object = await self._cluster.get(Resource.LEASE, self._namespace, self._name)
        return None if self._object is None else _lease_from(self._object)

    async def acquire(self, duration_s: float) -> Lease:
        """Acquire, renew or create the Lease; raises ClusterError, and Conflict if it has changed since it was read."""
        now, spec = _micro_time(self._clock()), self._spec()
        if spec.get("holderIdentity") != self.identity:
            transitions = spec.get("leaseTransitions")
            spec |= {"acquireTime": now, "leaseTransitions": 0 if transitions is None else int(transitions) + 1}
        spec |= {"holderIdentity": self.identity, "leaseDurationSeconds": math.ceil(duration_s), "renewTime": now}
        return await self._write(spec)

    async def release(self) -> Lease:
        """Release the Lease, so that another candidate need not wait for it to expire; raises ClusterError."""
        spec = {
            "holderIdentity": "",
            "leaseDurationSeconds": math.ceil(_MAX_DURATION_S),
            "renewTime": _micro_time(self._clock()),
        }
        return await self._write(self._spec() | spec)

    def _spec(self) -> Object:
        return dict((self._object or {}).get("spec") or {})

    async def _write(self, spec: Object) -> Lease:
        body = copy.deepcopy(self._object or {"metadata": {"namespace": self._namespace, "name": self._name}})
        body |= {"apiVersion": API_VERSION, "kind": "Lease", "spec": spec}
        if self._object is None:
            stored: Object | None = await self._cluster.create(Resource.LEASE, body)
        else:
            stored = await self._cluster.replace(Resource.LEASE, body)
        if stored is None:
            raise Conflict(f"{self} was deleted while it was written")
        self._object = stored
        return _lease_from(stored)


def _lease_from(found: Object) -> Lease:
    spec = found.get("spec") or {}
    return Lease(
        holder=str(spec.get("holderIdentity") or ""),
        duration_s=float(spec.get("leaseDurationSeconds") or 0.0),
        version=objects.version_of(found),
    )


def _micro_time(moment_s: float) -> str:
    """Return a time in the format of Kubernetes' MicroTime."""
    return datetime.fromtimestamp(moment_s, tz=UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

"""The Lease of `coordination.k8s.io/v1` that the operator's replicas elect their leader by, as client-go's LeaseLock.

A write names the resourceVersion that was read last, so of two candidates that write at once one gets Conflict. The
times in a Lease are for people: no candidate compares them with its clock.
"""

import copy
import math
from collections.abc import Callable
from datetime import UTC, datetime

from elasticjob_operator.errors import Conflict
from elasticjob_operator.model import objects
from elasticjob_operator.model.cluster_interface import Object, Resource, SecretStore
from elasticjob_operator.policy.leader_election import Lease

API_VERSION = "coordination.k8s.io/v1"
_MAX_DURATION_S = 1.0
"""Duration of a Lease that was released: the API server wants one above 0."""


class LeaseLock:
    """One Lease, read and written for the candidate `identity`; `clock` is wall clock."""

    def __init__(
        self, cluster: SecretStore, *, namespace: str, name: str, identity: str, clock: Callable[[], float]
    ) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._name = name
        self._clock = clock
        self._object: Object | None = None
        """As last read or written."""
        self.identity = identity

    def __str__(self) -> str:
        return f"lease {self._namespace}/{self._name}"

    async def read(self) -> Lease | None:
        """The Lease as it is, None if there is none; raises ClusterError."""
        self._object = await self._cluster.get(Resource.LEASE, self._namespace, self._name)
        return None if self._object is None else _lease_from(self._object)

    async def acquire(self, duration_s: float) -> Lease:
        """Take it or renew it, and create it if none was read; raises ClusterError, as Conflict if it has changed."""
        now, spec = _micro_time(self._clock()), self._spec()
        if spec.get("holderIdentity") != self.identity:
            transitions = spec.get("leaseTransitions")
            spec |= {"acquireTime": now, "leaseTransitions": 0 if transitions is None else int(transitions) + 1}
        spec |= {"holderIdentity": self.identity, "leaseDurationSeconds": math.ceil(duration_s), "renewTime": now}
        return await self._write(spec)

    async def release(self) -> Lease:
        """Give it up: another candidate need not wait for it to expire; raises ClusterError."""
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
    """As Kubernetes' MicroTime."""
    return datetime.fromtimestamp(moment_s, tz=UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

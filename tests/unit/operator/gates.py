"""Gates in front of a cluster and an etcd: each request waits until the test decides its outcome.

A test can answer requests in any order, lose a response, or end the process that waits. It can also fail a request that
takes effect later. Watches have no gate: a test delivers their events by itself.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from elasticjob_etcd.errors import Unavailable
from elasticjob_etcd.interface import Etcd, KeyValue, Lease, Range, Txn, TxnResult, WatchBatch
from elasticjob_operator.cluster.in_memory import InMemoryCluster
from elasticjob_operator.errors import ClusterUnavailable
from elasticjob_operator.model.cluster_interface import Object, Resource


@dataclass(slots=True)
class HeldRequest:
    """One request that waits at the gate."""

    description: str
    writes: bool
    execute: Callable[[], Awaitable[Any]]
    unavailable: Exception
    answer: "asyncio.Future[Any]"

    async def pass_through(self, *, lose_answer: bool = False) -> None:
        """Execute the request, and return its response to the caller unless it is lost."""
        try:
            result = await self.execute()
        except Exception as error:  # noqa: BLE001 -- whatever the fake raises is the caller's answer
            self._raise_to_caller(error)
            return
        if lose_answer:
            self._raise_to_caller(self.unavailable)
        elif not self.answer.done():
            self.answer.set_result(result)

    def fail(self) -> None:
        """Raise to the caller that no response came."""
        self._raise_to_caller(self.unavailable)

    def _raise_to_caller(self, error: Exception) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)


class Gate:
    """The waiting requests, oldest first."""

    def __init__(self) -> None:
        self.held: list[HeldRequest] = []

    async def through(
        self, what: str, execute: Callable[[], Awaitable[Any]], unavailable: Exception, *, writes: bool
    ) -> Any:
        """Wait at the gate; return the response, or raise."""
        held = HeldRequest(what, writes, execute, unavailable, asyncio.get_running_loop().create_future())
        self.held.append(held)
        return await held.answer


class GatedCluster:
    """A `Cluster` with a gate in front of `inner`."""

    def __init__(self, inner: InMemoryCluster, gate: Gate) -> None:
        self._inner = inner
        self._gate = gate

    async def _pass(self, what: str, execute: Callable[[], Awaitable[Any]], *, writes: bool = True) -> Any:
        return await self._gate.through(what, execute, ClusterUnavailable(f"{what}: no answer"), writes=writes)

    async def create(self, resource: Resource, body: Object) -> Object:
        made: Object = await self._pass(f"create {resource.value}", lambda: self._inner.create(resource, body))
        return made

    async def create_strictly(self, resource: Resource, body: Object) -> Object:
        made: Object = await self._pass(f"create {resource.value}", lambda: self._inner.create(resource, body))
        return made

    async def apply(self, resource: Resource, body: Object) -> Object:
        made: Object = await self._pass(f"apply {resource.value}", lambda: self._inner.apply(resource, body))
        return made

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
        await self._pass(
            "status",
            lambda: self._inner.patch_status(resource, namespace, name, status, uid=uid, version=version),
        )

    async def claim(self, resource: Resource, namespace: str, name: str, own: Mapping[str, Any], version: str) -> str:
        made: str = await self._pass("claim", lambda: self._inner.claim(resource, namespace, name, own, version))
        return made

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
        await self._pass(
            f"delete {name}",
            lambda: self._inner.delete(resource, namespace, name, uid=uid, version=version, grace_s=grace_s),
        )

    async def delete_collection(self, resource: Resource, namespace: str, selector: Mapping[str, str]) -> None:
        await self._pass("delete all", lambda: self._inner.delete_collection(resource, namespace, selector))

    async def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        found: Object | None = await self._pass(
            f"get {name}", lambda: self._inner.get(resource, namespace, name), writes=False
        )
        return found


class GatedEtcd:
    """An `Etcd` with a gate in front of `inner`."""

    def __init__(self, inner: Etcd, gate: Gate) -> None:
        self._inner = inner
        self._gate = gate

    async def _pass(self, what: str, execute: Callable[[], Awaitable[Any]], *, writes: bool = True) -> Any:
        return await self._gate.through(what, execute, Unavailable(f"{what}: no answer"), writes=writes)

    async def get(self, key: str) -> KeyValue | None:
        found: KeyValue | None = await self._pass(f"get {key}", lambda: self._inner.get(key), writes=False)
        return found

    async def range(self, prefix: str) -> Range:
        found: Range = await self._pass(f"range {prefix}", lambda: self._inner.range(prefix), writes=False)
        return found

    async def txn(self, txn: Txn) -> TxnResult:
        result: TxnResult = await self._pass(f"txn {_first_write(txn)}", lambda: self._inner.txn(txn))
        return result

    def watch(self, prefix: str, *, start_revision: int) -> AsyncGenerator[WatchBatch, None]:
        return self._inner.watch(prefix, start_revision=start_revision)

    async def lease_grant(self, ttl_s: float) -> Lease:
        lease: Lease = await self._pass("grant", lambda: self._inner.lease_grant(ttl_s))
        return lease

    async def lease_keep_alive(self, lease_id: int) -> float:
        left: float = await self._pass("keep alive", lambda: self._inner.lease_keep_alive(lease_id))
        return left

    async def lease_revoke(self, lease_id: int) -> bool:
        revoked: bool = await self._pass("revoke", lambda: self._inner.lease_revoke(lease_id))
        return revoked

    async def close(self) -> None:
        await self._inner.close()


def _first_write(txn: Txn) -> str:
    """Return the last part of the first key that the transaction writes, such as `spec` or `expected`."""
    return txn.success[0].key.rstrip("/").rsplit("/", 1)[-1]

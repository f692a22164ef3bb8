"""All leases of an etcd cluster, for its administrators."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Protocol

from elasticjob_etcd.connection import Connection
from elasticjob_etcd.errors import LeaseNotFound
from elasticjob_etcd.interface import Endpoint
from elasticjob_etcd.messages import rpc

_MAX_CONCURRENT = 64
"""Leases that are queried at the same time."""


class LeaseAdmin(Protocol):
    """An administrator's view of leases; every method may raise `errors.EtcdError`."""

    async def leases(self) -> frozenset[int]:
        """Return the ids of all leases."""

    async def with_keys(self, leases: frozenset[int]) -> frozenset[int]:
        """Return the ids of those of `leases` that have a key."""

    async def revoke(self, lease: int) -> None:
        """End a lease and its keys; do nothing if it has ended."""


class EtcdLeaseAdmin:
    """The leases of a real etcd, over one connection of the administrator."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @classmethod
    @contextlib.asynccontextmanager
    async def connect(cls, endpoint: Endpoint) -> AsyncIterator["EtcdLeaseAdmin"]:
        """Connect for a short while, with the current certificate files."""
        connection = Connection(endpoint)
        try:
            yield cls(connection)
        finally:
            await connection.close()

    async def leases(self) -> frozenset[int]:
        """See `LeaseAdmin`."""
        method = self._connection.lease.LeaseLeases
        answer = await self._connection.call(method, rpc.LeaseLeasesRequest(), tried="list of leases")
        return frozenset(lease.ID for lease in answer.leases)

    async def with_keys(self, leases: frozenset[int]) -> frozenset[int]:
        """See `LeaseAdmin`. A read of all keys would load their values into etcd's memory, also with `keys_only`."""
        found, wanted = set[int](), sorted(leases)
        for start in range(0, len(wanted), _MAX_CONCURRENT):
            batch = wanted[start : start + _MAX_CONCURRENT]
            answers = await asyncio.gather(*map(self._find_key, batch), return_exceptions=True)
            for lease, answer in zip(batch, answers, strict=True):
                if isinstance(answer, BaseException):
                    raise answer
                if answer:
                    found.add(lease)
        return frozenset(found)

    async def _find_key(self, lease: int) -> bool:
        """Return whether a lease has a key; False if it has ended."""
        request = rpc.LeaseTimeToLiveRequest(ID=lease, keys=True)
        try:
            answer = await self._connection.call(
                self._connection.lease.LeaseTimeToLive, request, tried="read of a lease"
            )
        except LeaseNotFound:
            return False
        return bool(answer.keys)

    async def revoke(self, lease: int) -> None:
        """See `LeaseAdmin`."""
        with contextlib.suppress(LeaseNotFound):
            request = rpc.LeaseRevokeRequest(ID=lease)
            await self._connection.call(self._connection.lease.LeaseRevoke, request, tried="revoke of a lease")

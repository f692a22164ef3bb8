"""The sweep of etcd's leases continues after errors."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from elasticjob_etcd.errors import Unavailable
from elasticjob_operator.maintenance.leases import EtcdLeaseSweeper
from testing.waiting import aeventually


class Leases:
    """An etcd with these leases, none of which has a key; the first revocation of each fails."""

    def __init__(self, *ids: int) -> None:
        self.there = set(ids)
        self.tried: set[int] = set()

    async def leases(self) -> frozenset[int]:
        return frozenset(self.there)

    async def with_keys(self, leases: frozenset[int]) -> frozenset[int]:
        return frozenset[int]() & leases

    async def revoke(self, lease: int) -> None:
        if lease not in self.tried:
            self.tried.add(lease)
            raise Unavailable("it was just restarted")
        self.there.discard(lease)

    @contextlib.asynccontextmanager
    async def connect(self) -> AsyncIterator["Leases"]:
        yield self


async def test_a_lease_whose_revocation_failed_is_revoked_at_the_next_check() -> None:
    etcd, revoked = Leases(*range(100)), list[int]()
    task = asyncio.create_task(EtcdLeaseSweeper(etcd.connect, revoked.append, check_s=0.001).run())
    await aeventually(lambda: not etcd.there and sum(revoked) >= 1, what="the end of all leases, counted")
    assert not task.done()
    task.cancel()
    await asyncio.wait({task})


async def test_the_revoked_leases_of_a_batch_are_counted_although_one_revocation_failed() -> None:
    etcd, revoked = Leases(*range(100)), list[int]()
    etcd.tried = set(range(1, 100))
    task = asyncio.create_task(EtcdLeaseSweeper(etcd.connect, revoked.append, check_s=0.001).run())
    await aeventually(lambda: sum(revoked) == 100, what="the count of all revoked leases")
    task.cancel()
    await asyncio.wait({task})

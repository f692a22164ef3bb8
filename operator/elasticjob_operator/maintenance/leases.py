"""Revokes leases without keys in the installation's own etcd, as `policy.etcd.leases` decides.

A client with any certificate may create leases, in any number and with any duration, and they outlive the job. They are
revoked in batches with pauses, so that a flood of them does not stop the operator's other work.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace

from elasticjob_etcd.errors import EtcdError
from elasticjob_etcd.lease_admin import LeaseAdmin
from elasticjob_operator.policy.etcd.leases import LeaseHistory, after_check, suspects

CHECK_S = 30.0
CHECK_IN_FLOOD_S = 5.0
_FLOOD = 1_000
"""Number of leases revoked in one check after which more are expected."""
_BATCH_SIZE = 256
_PAUSE_S = 0.05

Connect = Callable[[], AbstractAsyncContextManager[LeaseAdmin]]

log = logging.getLogger(__name__)


class EtcdLeaseSweeper:
    """Revokes leases of one etcd; `on_revoked` is called with the number of each batch."""

    def __init__(
        self,
        connect: Connect,
        on_revoked: Callable[[int], None],
        *,
        check_s: float = CHECK_S,
        check_in_flood_s: float = CHECK_IN_FLOOD_S,
    ) -> None:
        self._connect = connect
        self._on_revoked = on_revoked
        self._check_s = check_s
        self._check_in_flood_s = check_in_flood_s
        self._known = LeaseHistory()
        self._logged = ""

    async def run(self) -> None:
        """Check leases until cancelled."""
        while True:
            is_over = await self._check()
            await asyncio.sleep(self._check_s if is_over else self._check_in_flood_s)

    async def _check(self) -> bool:
        """Revoke leases without keys; return False if more are expected or etcd does not respond."""
        try:
            async with self._connect() as admin:
                revoked = await self._sweep(admin)
        except EtcdError as error:
            if str(error) != self._logged:
                log.warning("cannot check etcd's leases, trying again: %s", error)
            self._logged = str(error)
            return False
        self._logged = ""
        return revoked < _FLOOD

    async def _sweep(self, admin: LeaseAdmin) -> int:
        leases = await admin.leases()
        asked, with_keys = sorted(suspects(self._known, leases)), set[int]()
        for start in range(0, len(asked), _BATCH_SIZE):
            batch = frozenset(asked[start : start + _BATCH_SIZE])
            tied = await admin.with_keys(batch)
            with_keys |= tied
            await self._revoke(admin, batch - tied)
            await asyncio.sleep(_PAUSE_S)
        keyless = frozenset(asked) - with_keys
        if keyless:
            log.warning("revoked %d leases of etcd without a key: not an agent's, usually a job's flood", len(keyless))
        self._known = replace(self._known, with_keys=self._known.with_keys | with_keys)
        self._known = after_check(self._known, leases - keyless)
        return len(keyless)

    async def _revoke(self, admin: LeaseAdmin, keyless: frozenset[int]) -> None:
        ended = await asyncio.gather(*map(admin.revoke, keyless), return_exceptions=True)
        # Counted before the error: the next check does not find the leases of this batch that are gone.
        self._on_revoked(ended.count(None))
        if error := next((one for one in ended if one is not None), None):
            raise error

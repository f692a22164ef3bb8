"""Ends leases in the installation's own etcd that have no key, as `policy.etcd_leases` decides.

Every certificate may ask for leases, in any number and for any time, and they outlive the job. They are ended
in batches with pauses, so that the operator's other work goes on during a flood.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace

from elasticjob_etcd.errors import EtcdError
from elasticjob_etcd.lease_admin import LeaseAdmin
from elasticjob_operator.policy.etcd.leases import Known, after_look, suspects

LOOK_S = 30.0
LOOK_IN_FLOOD_S = 5.0
_FLOOD = 1_000
"""So many leases ended at one look: there will be more."""
_BATCH = 256
_PAUSE_S = 0.05

Connect = Callable[[], AbstractAsyncContextManager[LeaseAdmin]]

log = logging.getLogger(__name__)


class EtcdLeases:
    """Looks after the leases of one etcd; `on_revoked` is called with how many were ended."""

    def __init__(
        self,
        connect: Connect,
        on_revoked: Callable[[int], None],
        *,
        look_s: float = LOOK_S,
        look_in_flood_s: float = LOOK_IN_FLOOD_S,
    ) -> None:
        self._connect = connect
        self._on_revoked = on_revoked
        self._look_s = look_s
        self._look_in_flood_s = look_in_flood_s
        self._known = Known()
        self._said = ""

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            is_over = await self._look()
            await asyncio.sleep(self._look_s if is_over else self._look_in_flood_s)

    async def _look(self) -> bool:
        """End leases without an owner; return False if more are to be expected, or etcd did not answer."""
        try:
            async with self._connect() as admin:
                revoked = await self._sweep(admin)
        except EtcdError as error:
            if str(error) != self._said:
                log.warning("etcd's leases cannot be looked after, trying again: %s", error)
            self._said = str(error)
            return False
        self._said = ""
        return revoked < _FLOOD

    async def _sweep(self, admin: LeaseAdmin) -> int:
        leases = await admin.leases()
        asked, with_keys = sorted(suspects(self._known, leases)), set[int]()
        for start in range(0, len(asked), _BATCH):
            batch = frozenset(asked[start : start + _BATCH])
            tied = await admin.with_keys(batch)
            with_keys |= tied
            await self._revoke(admin, batch - tied)
            await asyncio.sleep(_PAUSE_S)
        keyless = frozenset(asked) - with_keys
        if keyless:
            log.warning("ended %d leases of etcd that have no key: no agent's, as a rule a job's flood", len(keyless))
        self._known = replace(self._known, with_keys=self._known.with_keys | with_keys)
        self._known = after_look(self._known, leases - keyless)
        return len(keyless)

    async def _revoke(self, admin: LeaseAdmin, keyless: frozenset[int]) -> None:
        ended = await asyncio.gather(*map(admin.revoke, keyless), return_exceptions=True)
        if error := next((one for one in ended if one is not None), None):
            raise error
        self._on_revoked(len(keyless))

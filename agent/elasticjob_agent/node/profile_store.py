"""The import profile of one job in etcd: its own, or else the one of an earlier job that the operator has put there.

A profile only makes a start faster. So an etcd that does not answer is no error: the workers then start cold.
"""

import asyncio
import logging
from collections.abc import Callable

from elasticjob_agent.rendezvous.protocol.transactions import SessionIdentity
from elasticjob_api.keys import Keys
from elasticjob_etcd.errors import EtcdError
from elasticjob_etcd.interface import Etcd, Put, Txn, unchanged

READ_S = 1.0
"""Workers wait for the read."""

log = logging.getLogger(__name__)


class EtcdProfileStore:
    """Implements `warm_start.profiles.ProfileStore`."""

    def __init__(self, etcd: Etcd, keys: Keys, writer: Callable[[], SessionIdentity | None]) -> None:
        """`writer` returns the session of this agent in the job, None before the first one."""
        self._etcd = etcd
        self._own, self._earlier = keys.import_profile, keys.earlier_import_profile
        self._writer = writer

    async def load(self) -> tuple[bytes | None, int]:
        """Return the profile, and the revision of the job's own one, else 0; None without one, or without etcd."""
        try:
            async with asyncio.timeout(READ_S):
                if own := await self._etcd.get(self._own):
                    return own.value, own.mod_revision
                earlier = await self._etcd.get(self._earlier)
        except (EtcdError, TimeoutError) as error:
            text = str(error) or f"no answer within {READ_S:g} s"
            log.info("warm start: the import profile was not read: %s", text)
            return None, 0
        return (earlier.value if earlier else None), 0

    async def save(self, data: bytes, revision: int) -> bool:
        """Replace the job's own profile, if it still has this revision and the session of this agent has not ended.

        Return whether it was replaced.
        """
        me = self._writer()
        if me is None:
            return False
        try:
            result = await self._etcd.txn(Txn((me.owns_key, unchanged(self._own, revision)), (Put(self._own, data),)))
        except EtcdError as error:
            log.info("warm start: the import profile was not written: %s", error)
            return False
        if not result.succeeded:
            log.info("warm start: the import profile was not written: another node has, or our session has ended")
        return result.succeeded

"""Probes of etcd: a read and a small transaction at intervals, and at once after a failed request.

The mirror waits until an outage ends without reporting it; these probes make it visible in every job's status. The
transaction contains a write, so a full etcd refuses it. Its condition is never true, so it changes nothing.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable

from elasticjob_api import constants
from elasticjob_api.keys import ROOT
from elasticjob_etcd.errors import EtcdError, NoSpace
from elasticjob_etcd.interface import Compare, Etcd, Get, Put, Target, Txn
from elasticjob_operator.policy.etcd.space import FULL

PROBE_S = 2.0
PROBE_WHEN_UNHEALTHY_S = 0.5
_KEY = f"{ROOT}/health"
_NEVER_TRUE = (Compare(_KEY, Target.CREATE, 0), Compare(_KEY, Target.VERSION, 1))
"""A contradiction: the key does not exist, and it was written once."""
_DRY_RUN_WRITE = Txn(_NEVER_TRUE, success=(Put(_KEY, b""),), failure=(Get(_KEY),))

log = logging.getLogger(__name__)


class EtcdHealth:
    """The health of etcd: `trouble` describes a fault, or is empty; `on_change` is called when one begins or ends."""

    def __init__(self, etcd: Etcd, on_change: Callable[[], None], *, confirm_s: float = PROBE_WHEN_UNHEALTHY_S) -> None:
        self.trouble = ""
        self._etcd = etcd
        self._on_change = on_change
        self._confirm_s = confirm_s
        self._check_requested = asyncio.Event()

    @property
    def is_full(self) -> bool:
        """Whether etcd responds and refuses writes, because it is full."""
        return self.trouble == FULL

    def check_now(self) -> None:
        """Probe now, because a request of another component failed."""
        self._check_requested.set()

    async def run(self) -> None:
        """Probe until cancelled."""
        while True:
            self._check_requested.clear()
            self._set_trouble(await self._confirmed())
            # Not wait_for: before Python 3.12 it may drop a cancellation, and the operator then does not end.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PROBE_WHEN_UNHEALTHY_S if self.trouble else PROBE_S):
                    await self._check_requested.wait()

    async def _confirmed(self) -> str:
        """Return the fault, or ""; an outage begins only after two failed probes."""
        # Every job's status shows the begin and the end of an outage.
        trouble = await self._probe()
        if not trouble or trouble == FULL or self.trouble:
            return trouble
        await asyncio.sleep(self._confirm_s)
        return await self._probe()

    async def _probe(self) -> str:
        try:
            await self._etcd.get(_KEY)  # the client fails over to another member only on a read
            await self._etcd.txn(_DRY_RUN_WRITE)
        except NoSpace:
            return FULL
        except EtcdError as error:
            return f"{constants.LOG_ETCD_UNAVAILABLE}: {error}"
        return ""

    def _set_trouble(self, trouble: str) -> None:
        if bool(trouble) != bool(self.trouble) or self.is_full != (trouble == FULL):
            log.warning("%s", trouble or constants.LOG_ETCD_AVAILABLE)
            self.trouble = trouble
            self._on_change()

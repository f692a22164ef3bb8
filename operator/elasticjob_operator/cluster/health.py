"""Whether etcd answers: one small read now and then, and at once when somebody had trouble with it.

The mirror waits outages out in silence; this is what makes them visible in every job's status.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable

from elasticjob_api.keys import ROOT
from elasticjob_etcd.errors import EtcdError
from elasticjob_etcd.protocol import Etcd

PROBE_S = 2.0
PROBE_IN_TROUBLE_S = 0.5
_KEY = f"{ROOT}/health"

log = logging.getLogger(__name__)


class EtcdHealth:
    """`trouble` says what is wrong, in words, or nothing; `on_change` is told when it begins or ends."""

    def __init__(self, etcd: Etcd, on_change: Callable[[], None]) -> None:
        self.trouble = ""
        self._etcd = etcd
        self._on_change = on_change
        self._suspicion = asyncio.Event()

    def suspect(self) -> None:
        """Somebody's call failed: look now."""
        self._suspicion.set()

    async def run(self) -> None:
        """Probe until cancelled."""
        while True:
            self._suspicion.clear()
            self._note(await self._probe())
            # Not wait_for: before Python 3.12 it may swallow a cancellation, and then the operator does not end.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PROBE_IN_TROUBLE_S if self.trouble else PROBE_S):
                    await self._suspicion.wait()

    async def _probe(self) -> str:
        try:
            await self._etcd.get(_KEY)
        except EtcdError as error:
            return f"etcd does not answer: {error}"
        return ""

    def _note(self, trouble: str) -> None:
        if bool(trouble) != bool(self.trouble):
            log.warning("%s", trouble or "etcd answers again")
            self.trouble = trouble
            self._on_change()

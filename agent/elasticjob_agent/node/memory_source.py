"""The step of a round from the memory of the nodes: linked if all its parts are here, else fetched from others."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from elasticjob_agent.keep.client import KeeperClient
from elasticjob_agent.keep.keeper.errors import HolderUnreachedError, RequestRefused
from elasticjob_agent.node import keep_requests
from elasticjob_agent.node.keep_settings import KeepSettings
from elasticjob_agent.node.keeper_lister import KeeperEntry, KeeperLister
from elasticjob_api.kept_steps import KeptStep
from elasticjob_api.rendezvous_state import Member, RendezvousState
from elasticjob_etcd.errors import EtcdError

_AGAIN_S = 1.0
"""Seconds until nodes that did not answer are asked again."""

log = logging.getLogger(__name__)


class MemorySource:
    """The steps that the keeper of one node restores from its own memory and that of others."""

    def __init__(self, keeper: KeeperClient, lister: KeeperLister, settings: KeepSettings) -> None:
        self._keeper = keeper
        self._lister = lister
        self._settings = settings

    def begin_to_link(self, step: KeptStep) -> asyncio.Task[Path] | None:
        """Ask for the directory of a step that is here; the request follows that of the round without a wait."""
        if self._missing(step):
            return None
        task = asyncio.create_task(self._keeper.restore(step), name="keep link")
        task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())  # it may be that no one waits
        return task

    async def restore(
        self,
        state: RendezvousState,
        me: Member,
        step: KeptStep,
        link: asyncio.Task[Path] | None,
        *,
        is_on_disk: Callable[[], bool],
    ) -> Path:
        """Return the directory of the step, fetched as far as it is not here.

        A node whose record is there lives. If it does not answer, it is asked again for the whole time of a restore,
        unless the step is also on disk.

        Raises:
            TimeoutError: it was not here within the time of a restore.
            RecordError, KeeperError, EtcdError: it cannot be restored.
        """
        until_s = asyncio.get_running_loop().time() + self._settings.restore_timeout_s

        async def fetch_from(keepers: Mapping[Member, KeeperEntry]) -> Path:
            sources = keep_requests.addresses_of(step, missing, assigned, keepers, me)
            return await self._keeper.fetch(step, sources, until_s - asyncio.get_running_loop().time())

        async with asyncio.timeout_at(until_s):
            missing = self._missing(step)
            if link is not None:
                with suppress(RequestRefused):
                    return await link
                missing = list(range(step.parts))  # a part was withdrawn; the keeper fetches those that it has not
            assigned = keep_requests.assigned_holders(state, step, missing)
            if assigned.keys() == set(missing):
                with suppress(RequestRefused, EtcdError):  # others may have it as well
                    keepers = await self._lister.find(set(assigned.values()))
                    return await fetch_from(keepers)
            while True:
                try:
                    return await fetch_from(await self._lister.list_all())
                except HolderUnreachedError as error:
                    if is_on_disk():
                        raise
                    log.warning("round %d: step %d is not given up yet: %s", state.round, step.number, error)
                await asyncio.sleep(_AGAIN_S)

    def _missing(self, step: KeptStep) -> list[int]:
        return sorted(frozenset(range(step.parts)) - self._keeper.holdings.get(step, frozenset()))

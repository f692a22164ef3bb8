"""The shared directory as one node uses it: the step that a round may restore, and the last steps at the end."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elasticjob_agent.keep.client import KeeperClient
from elasticjob_agent.keep.keeper.errors import RequestRefused
from elasticjob_agent.keep.rules.persisting import newest_eligible
from elasticjob_agent.node.keep_settings import KeepSettings, PersistSettings
from elasticjob_agent.node.keeper_lister import KeeperLister
from elasticjob_agent.node.node_drain import EndingJob, NodeDrain
from elasticjob_api.errors import RecordError
from elasticjob_api.kept_steps import History, PersistedStep
from elasticjob_api.rendezvous_state import Member, RendezvousState

_CHECK_AGAIN_S = 1.0
"""Seconds until a persisted step is looked for again: a file system shows the renames of other nodes late."""

Spawn = Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]

log = logging.getLogger(__name__)


async def _no_report() -> None:
    """Report nothing."""


@dataclass(slots=True)
class _DepartureWait:
    """The time in which the last steps of a job whose nodes all end are written to disk."""

    nonce: str
    """That of the state which ends the job."""
    task: asyncio.Task[None] | None = None
    is_over: bool = False


class SharedDir:
    """The shared directory of one node. The keeper alone touches it."""

    def __init__(
        self,
        keeper: KeeperClient,
        lister: KeeperLister,
        persist: PersistSettings,
        settings: KeepSettings,
        *,
        on_end: Callable[[], None],
        spawn: Spawn,
    ) -> None:
        """`on_end` is called when the last steps are on disk."""
        self.report_last: Callable[[], Awaitable[None]] = _no_report
        """Called then, before: the node's report goes with its session."""
        self._keeper = keeper
        self._lister = lister
        self._persist = persist
        self._settings = settings
        self._on_end = on_end
        self._spawn = spawn
        self._state: RendezvousState | None = None
        self._history = History()
        """The steps that the training descends from, also in the last active state: a final one has another nonce."""
        self._departure: _DepartureWait | None = None

    async def wait_listed(self) -> None:
        """Return when the directory is listed, or does not answer in the time of a restore."""
        if not await self._keeper.wait_listed(self._settings.restore_timeout_s):
            log.warning("%s is not listed: this node restores no step from it at first", self._persist.directory)

    def observe(self, state: RendezvousState) -> None:
        """Take in the newest state."""
        if self._state is not None and self._state.nonce == state.nonce:
            return
        self._state = state
        if self._departure is not None and self._departure.nonce != state.nonce:
            self.stop()
            self._departure = None
        if not state.phase.is_final:
            with suppress(RecordError):  # nothing of it is restored
                self._history = History.parse(state.history_of_next_round())

    @property
    def newest(self) -> PersistedStep | None:
        """The whole step that the next round may restore, as far as this node knows."""
        run = "" if self._state is None else self._state.run
        steps = self._keeper.persisted_steps()
        return newest_eligible(steps, self._history, run, may_resume=self._persist.may_resume)

    async def find(self, persisted: PersistedStep) -> Path:
        """Return the directory of a whole step as soon as this node can see it; raise KeeperError."""
        clock = asyncio.get_running_loop().time
        until_s = clock() + self._settings.restore_timeout_s
        while True:
            left_s = until_s - clock()
            try:
                return await self._keeper.fetch(persisted.step, {}, left_s, run=persisted.run)
            except RequestRefused as error:
                if left_s <= _CHECK_AGAIN_S:
                    raise
                log.info("step %d is looked for again in the shared directory: %s", persisted.step.number, error)
                await asyncio.sleep(_CHECK_AGAIN_S)

    def drains(self, state: RendezvousState, me: Member | None) -> bool:
        """Return whether this node writes its last steps to disk; the first call for a state begins it."""
        self.observe(state)
        if self._departure is None:
            self._departure = _DepartureWait(state.nonce)
            if me is None or not self._settings.linger_s:
                self._departure.is_over = True
            else:
                self._departure.task = self._spawn(self._drain(self._departure, me))
        return not self._departure.is_over

    async def _drain(self, departure: _DepartureWait, me: Member) -> None:
        run = "" if self._state is None else self._state.run
        await NodeDrain(
            self._keeper,
            self._lister,
            me,
            ending=EndingJob(run, self._history, departure.nonce),
            within_s=self._settings.linger_s,
        ).run()
        await self.report_last()
        departure.task = None
        self.stop()

    def stop(self) -> None:
        """Write no more steps to disk."""
        if self._departure is not None and not self._departure.is_over:
            self._departure.is_over = True
            if self._departure.task is not None:
                self._departure.task.cancel()
            self._on_end()

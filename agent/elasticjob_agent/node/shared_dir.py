"""The shared directory as one node uses it: the step that a round may restore, and the last steps at the end."""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elasticjob_agent.keep.client import KeeperClient
from elasticjob_agent.keep.keeper.errors import KeeperError, RequestRefused, StepRefused
from elasticjob_agent.keep.rules.persisting import eligible, has_missed_rounds
from elasticjob_agent.node.keep_report import waiting_for_keeper
from elasticjob_agent.node.keep_settings import KeepSettings, PersistSettings
from elasticjob_agent.node.keeper_lister import KeeperLister
from elasticjob_agent.node.node_drain import EndingJob, NodeDrain
from elasticjob_api.errors import RecordError
from elasticjob_api.kept_steps import History, Lineage, PersistedStep
from elasticjob_api.rendezvous_state import Member, RendezvousState, RoundPhase

_CHECK_AGAIN_S = 1.0
"""Seconds until a persisted step is looked for again: a file system shows the renames of other nodes late."""
_FIRST_LIST_S = 5.0
"""Seconds that a node waits for the directory before it joins; later it waits as a node of its job, and reports why."""
_CURE = "mount the volume that has the steps, or remove keep.persistTo (--keep-persist-to) while the job is suspended"

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
        self.on_trouble: Callable[[], None] = lambda: None
        """Called when the step of the round cannot be read, and when it can."""
        self.lost = ""
        """Why the last steps of this node are not on disk, as a sentence without its full stop; empty if they are."""
        self._keeper = keeper
        self._lister = lister
        self._persist = persist
        self._settings = settings
        self._on_end = on_end
        self._spawn = spawn
        self._state: RendezvousState | None = None
        self._history = self._line = History()
        """The steps that the training descends from, also in the last active state: a final one has another nonce.
        `_line` has those, too, that count in the shared directory only.
        """
        self._departure: _DepartureWait | None = None
        self._followed: Lineage | None = None
        """The last round of which this node was a member."""
        self._wanted_list = 0
        """The number of the list of the directory that counts; each higher one was made later."""
        self._was_listed = False
        self._may_begin_anew = False
        """Whether the job was new when this node joined, and has had no round without it since."""
        self._unreadable = ""
        """Why the step of the round cannot be read: a sentence without its full stop."""

    async def wait_listed(self) -> None:
        """Return when the directory is listed, cannot be listed, or does not answer for some seconds."""
        await self._keeper.wait_listed(_FIRST_LIST_S)
        self.note_list()

    def note_list(self) -> None:
        """Take in what the keeper knows of the directory; log the first list that counts."""
        was_listed, self._was_listed = self._was_listed, self._has_listed
        if self._was_listed and not was_listed:
            log.info("%s is listed: it has %d steps", self._persist.directory, len(self._keeper.persist.steps))

    @property
    def _has_listed(self) -> bool:
        """Whether the keeper of now has listed the directory since this node last missed a round.

        The leader's keeper reports to members what becomes whole later.
        """
        known = self._keeper.persist
        return known.is_listed and known.list_number >= self._wanted_list

    @property
    def has_listed(self) -> bool:
        """Whether `newest` is right: the steps that count follow from the state, and none of them is unknown here."""
        return self._state is not None and not self._may_miss_steps

    @property
    def trouble(self) -> str:
        """A sentence without its full stop: why this node waits for the directory; empty if it does not."""
        return self._unreadable or (self._waiting_text() if self._may_miss_steps else "")

    @property
    def _may_miss_steps(self) -> bool:
        return not self._has_listed and not self._may_begin_anew

    def _waiting_text(self) -> str:
        if self._keeper.refused:
            return waiting_for_keeper(self._keeper.refused)
        why = self._keeper.persist.error or f"{self._persist.directory} has not answered yet"
        return f"this node waits until keep.persistTo can be listed: {why}; {_CURE}"

    def observe(self, state: RendezvousState, me: Member | None) -> None:
        """Take in the newest state, as this member."""
        if self._state is not None and self._state.nonce == state.nonce:
            return
        is_first, self._state = self._state is None, state
        if self._departure is not None and self._departure.nonce != state.nonce:
            self.stop()
            self._departure = None
            self.lost = ""
        if not state.phase.is_final:
            with suppress(RecordError):  # nothing of it is restored
                self._history = History.parse(state.history_of_next_round())
                self._line = self._history.followed_by(state.older_history())
        if is_first:
            self._may_begin_anew = not self._persist.may_resume and not state.history_of_next_round()
            if self.trouble:
                log.warning("%s", self.trouble)
        if state.phase is RoundPhase.FORMING and has_missed_rounds(self._history, self._followed):
            self._list_again()
        if state.phase is RoundPhase.ACTIVE and me in state.members:
            self._followed = Lineage(state.round, state.nonce)

    def _list_again(self) -> None:
        """Let no older list count: rounds without this node may have persisted steps and removed others."""
        self._wanted_list += 1
        self._may_begin_anew = self._was_listed = False
        self._keeper.list_again(self._wanted_list)

    @property
    def eligible(self) -> list[PersistedStep]:
        """The whole steps that the next round may restore, as far as this node knows, newest first."""
        run = "" if self._state is None else self._state.run
        return eligible(self._keeper.persisted_steps(), self._line, run, may_resume=self._persist.may_resume)

    async def find(self, persisted: PersistedStep) -> Path:
        """Return the directory of a whole step as soon as this node can read it.

        A step that is refused here is given up for good. So a directory that cannot be read is waited for, without a
        limit. A step that is missing or broken among others is looked for in the time of a restore. It begins with the
        first such answer: a file system of a network may show steps late when it answers again.

        Raises:
            StepRefused: the step is not there, or may not be used.
        """
        clock, within_s = asyncio.get_running_loop().time, self._settings.restore_timeout_s
        refused_s: float | None = None
        try:
            while True:
                try:
                    return await self._keeper.fetch(persisted.step, {}, within_s, run=persisted.run)
                except KeeperError as error:
                    # Without any step it may be another volume, or none.
                    is_of_step = isinstance(error, StepRefused) and bool(self._keeper.persisted_steps())
                    refused_s = (refused_s or clock()) if is_of_step else None
                    if not is_of_step and not self._unreadable:
                        # Peers that wait for this node in vain may fail. The next round closes without a new list of it
                        # only if the directory has answered.
                        self._list_again()
                    if refused_s is not None and clock() >= refused_s + within_s - _CHECK_AGAIN_S:
                        raise
                    self._note_unreadable("" if is_of_step else f"step {persisted.step.number}: {error}")
                await asyncio.sleep(_CHECK_AGAIN_S)
        finally:
            self._note_unreadable("")

    def has(self, persisted: PersistedStep) -> bool:
        """Return whether the step was there when the directory was listed last."""
        return persisted in self._keeper.persisted_steps()

    async def find_unless(self, restored: Awaitable[Path], persisted: PersistedStep) -> Path:
        """Return the directory of a step that is restored in memory, or of it on disk if no node serves it in time."""
        try:
            return await restored
        except (RequestRefused, TimeoutError) as error:
            if not self.has(persisted):
                raise
            why = str(error) or f"no node served it within {self._settings.restore_timeout_s:g} s"
            log.warning("step %d is read in keep.persistTo: %s", persisted.step.number, why)
        return await self.find(persisted)

    def _note_unreadable(self, why: str) -> None:
        text = why and f"this node waits until keep.persistTo can be read: {why}; {_CURE}"
        if text != self._unreadable:
            self._unreadable = text
            if text:
                log.warning("%s", text)
            self.on_trouble()

    def drains(self, state: RendezvousState, me: Member | None, within_s: float = math.inf) -> bool:
        """Return whether this node writes its last steps to disk; the first call for a state begins it.

        `within_s` is the time that is left to this node, if that is less than a departure has.
        """
        self.observe(state, me)
        if self._departure is None:
            self._departure = _DepartureWait(state.nonce)
            if me is None or not self._settings.linger_s:
                self._departure.is_over = True
            else:
                self._departure.task = self._spawn(self._drain(self._departure, me, within_s))
        return not self._departure.is_over

    async def _drain(self, departure: _DepartureWait, me: Member, within_s: float) -> None:
        run = "" if self._state is None else self._state.run
        self.lost = await NodeDrain(
            self._keeper,
            self._lister,
            me,
            ending=EndingJob(run, self._history, departure.nonce),
            within_s=min(within_s, self._settings.linger_s),
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

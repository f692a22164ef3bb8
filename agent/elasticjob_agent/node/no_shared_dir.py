"""A node that was started without a shared directory: it has nothing to restore from there, and nothing to write."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

from elasticjob_api.kept_steps import PersistedStep
from elasticjob_api.rendezvous_state import Member, RendezvousState

log = logging.getLogger(__name__)


class NoSharedDir:
    """The interface of `SharedDir`, for a node that has none."""

    report_last: Callable[[], Awaitable[None]]
    eligible: tuple[PersistedStep, ...] = ()
    has_listed: bool | None = None
    lost = ""

    def __init__(self) -> None:
        self.on_trouble: Callable[[], None] = lambda: None
        self.trouble = ""
        """Why this node waits, as a sentence without its full stop; empty if it does not."""

    async def wait_listed(self) -> None:
        """Do nothing."""

    def note_list(self) -> bool:
        """Return False: there is no list."""
        return False

    def observe(self, _state: RendezvousState, _me: Member | None) -> None:
        """Do nothing."""

    async def find(self, persisted: PersistedStep) -> Path:
        """Wait until the round ends: a step that one node refuses is given up for good."""
        self.trouble = (
            f"this node waits, because it has no keep.persistTo, and step {persisted.step.number} is there; "
            "delete its pod, or start its agent with --keep-persist-to"
        )
        log.warning("%s", self.trouble)
        self.on_trouble()
        try:
            await asyncio.Event().wait()
        finally:
            self.trouble = ""
        raise AssertionError

    def has(self, _persisted: PersistedStep) -> bool:
        """Return False: no step is there."""
        return False

    async def find_unless(self, restored: Awaitable[Path], _persisted: PersistedStep) -> Path:
        """Return the directory of a step that is restored in memory."""
        return await restored

    def drains(self, _state: RendezvousState, _me: Member | None, _within_s: float = 0.0) -> bool:
        """Return False: nothing is written."""
        return False

    def stop(self) -> None:
        """Do nothing."""

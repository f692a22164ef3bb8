"""Noticing the names under which a script publishes, in the directory of one round.

With inotify nothing wakes the keeper when nothing happens. Without it, the keeper looks at the directory's time once a
second. Neither must be complete: the scan after the workers are reaped is.
"""

import contextlib
from pathlib import Path

from elasticjob_agent.keep.keeper.inotify import InotifyMissing, InotifyWatch
from elasticjob_agent.keep.rules.step_name import is_step_name

_POLL_S = 1.0
_MOST_NAMES = 10_000
"""So many names that were made in place are remembered."""


class IncomingWatch:
    """A watch for names in one directory."""

    def __init__(self, directory: Path, inotify: InotifyWatch) -> None:
        """`inotify` is that of the keeper; it watches this directory until `close`."""
        self._directory = directory
        self._inotify: InotifyWatch | None = None
        self._made_in_place: set[str] = set()
        self._seen_ns = 0
        self._looks_again = False
        with contextlib.suppress(InotifyMissing):
            inotify.watch(directory)
            self._inotify = inotify

    @property
    def fd(self) -> int:
        """The descriptor that is readable when a name has appeared; -1 while polling."""
        return -1 if self._inotify is None else self._inotify.fd

    @property
    def pause_s(self) -> float | None:
        """Seconds until the next look; None if the descriptor wakes."""
        return _POLL_S if self._inotify is None else None

    def new_names(self) -> list[str] | None:
        """Return the names that were renamed to here since the last call; None if the directory must be read."""
        if self._inotify is None:
            return self._poll()
        events = self._inotify.read()
        for event in events or ():
            if event.was_moved:
                self._made_in_place.discard(event.name)
            elif is_step_name(event.name) and len(self._made_in_place) < _MOST_NAMES:
                self._made_in_place.add(event.name)
        return None if events is None else [event.name for event in events if event.was_moved]

    def was_made_in_place(self, name: str) -> bool:
        """Return whether this name was created, not renamed: what is in it may be half written."""
        return name in self._made_in_place

    def close(self) -> None:
        """End the watch."""
        if self._inotify is not None:
            self._inotify.unwatch()

    def _poll(self) -> list[str] | None:
        try:
            changed_ns = self._directory.stat().st_mtime_ns
        except FileNotFoundError:
            return []
        has_changed = changed_ns != self._seen_ns
        # Two changes shortly after each other may have the same time, as the clock of files is coarse: look once more.
        looks, self._looks_again = has_changed or self._looks_again, has_changed
        self._seen_ns = changed_ns
        return None if looks else []

"""Noticing the names under which a script publishes, in the directory of one round.

With inotify nothing wakes the keeper when nothing happens. Without it, the keeper looks at the directory's time once a
second. Neither must be complete: the scan after the workers are reaped is.

A name that is almost that of a step may be created for a draft, which is then renamed. One that is still there when
another number is created is no draft.
"""

import contextlib
import os
from pathlib import Path

from elasticjob_agent.keep.keeper.inotify import InotifyMissing, InotifyWatch, NameEvent
from elasticjob_agent.keep.rules.step_name import is_like_step_name, is_of_other_number, is_step_name

_POLL_S = 1.0
_MOST_NAMES = 10_000
"""So many names that were made in place are remembered."""


class IncomingWatch:
    """A watch for names in one directory."""

    def __init__(self, directory: Path, inotify: InotifyWatch) -> None:
        """`inotify` is that of the keeper; it watches this directory until `close`."""
        self._directory = directory
        self._inotify: InotifyWatch | None = None
        self._made_in_place: dict[str, bool] = {}
        """The names of steps that were created and not renamed, and whether each is a directory."""
        self._draft = ""
        """A created name that is almost that of a step; empty if there is none."""
        self._unpublished: list[str] = []
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
                self._made_in_place.pop(event.name, None)
            elif is_like_step_name(event.name):
                self._note_created(event)
        return None if events is None else [event.name for event in events if event.was_moved]

    def unpublished_names(self) -> list[str]:
        """Return the names, known by the last call of `new_names`, under which a script publishes in a wrong way."""
        found, self._unpublished = self._unpublished, []
        return found

    def was_made_in_place(self, name: str) -> bool:
        """Return whether this name was created, not renamed: what is in it may be half written."""
        return name in self._made_in_place

    def is_file_in_place(self, name: str) -> bool:
        """Return whether this name was created, not renamed, and is no directory."""
        return not self._made_in_place.get(name, True)

    def close(self) -> None:
        """End the watch."""
        if self._inotify is not None:
            self._inotify.unwatch()

    def _note_created(self, event: NameEvent) -> None:
        if not is_step_name(event.name):
            self._note_draft(event.name)
        elif len(self._made_in_place) < _MOST_NAMES:
            self._made_in_place[event.name] = event.is_directory
            self._unpublished.append(event.name)

    def _note_draft(self, name: str) -> None:
        if not self._draft:
            self._draft = name
        elif is_of_other_number(name, self._draft):
            if os.path.lexists(self._directory / self._draft):
                self._unpublished.append(self._draft)
            self._draft = name

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

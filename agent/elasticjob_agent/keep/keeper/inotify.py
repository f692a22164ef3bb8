"""inotify by ctypes: which names appear in one directory, without a thread and without polling.

A user has few instances of inotify (128 on most machines), and all pods of a node may share them. So there may be none
left: `InotifyMissing` is normal, and its caller polls.
"""

import ctypes
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_IN_MOVED_TO = 0x80
_IN_CREATE = 0x100
_IN_Q_OVERFLOW = 0x4000
_IN_IGNORED = 0x8000
_IN_ONLYDIR = 0x01000000
_IN_ISDIR = 0x40000000
_EVENT = struct.Struct("iIII")
_READ_BYTES = 1 << 16
_MOST_READS = 64
"""So many reads at a time: more than a full queue needs. A script may make events faster than they are read."""
_libc = ctypes.CDLL(None, use_errno=True)


class InotifyMissing(OSError):
    """The system has no instance or watch left, or no inotify."""


@dataclass(frozen=True, slots=True)
class NameEvent:
    """One name that has appeared."""

    name: str
    was_moved: bool
    """Whether it was renamed to this name; else it was created under it."""
    is_directory: bool


class InotifyWatch:
    """An instance of inotify that watches one directory at a time."""

    def __init__(self) -> None:
        """The instance is opened when it is first needed."""
        self.fd = -1
        """The descriptor, which is readable when names have appeared; -1 before the first watch."""
        self._watch = -1

    def watch(self, directory: Path) -> None:
        """Watch this directory alone from now on; raise InotifyMissing."""
        self.unwatch()
        if self.fd < 0:
            self.fd = _check(_libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        mask = _IN_MOVED_TO | _IN_CREATE | _IN_ONLYDIR
        self._watch = _check(_libc.inotify_add_watch(self.fd, os.fsencode(directory), mask))

    def unwatch(self) -> None:
        """End the watch. The instance stays: the kernel needs about 8 ms to close one, and 1 µs to end a watch."""
        if self._watch >= 0:
            _libc.inotify_rm_watch(self.fd, self._watch)  # it fails for a directory that was deleted
            self._watch = -1

    def close(self) -> None:
        """Close the instance."""
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = self._watch = -1

    def read(self) -> list[NameEvent] | None:
        """Return the new names in their order; None if there were too many, so that the directory must be read."""
        events: list[NameEvent] = []
        has_lost = False
        for _ in range(_MOST_READS):
            if not (data := self._read()):
                return None if has_lost else events
            for watch, mask, name in _events(data):
                has_lost |= bool(mask & _IN_Q_OVERFLOW)
                if watch == self._watch:  # events of the directory before may still be there
                    has_lost |= bool(mask & _IN_IGNORED)
                    if name:
                        events.append(
                            NameEvent(name, was_moved=bool(mask & _IN_MOVED_TO), is_directory=bool(mask & _IN_ISDIR))
                        )
        return None

    def _read(self) -> bytes:
        try:
            return os.read(self.fd, _READ_BYTES)
        except BlockingIOError:
            return b""


def _events(data: bytes) -> Iterator[tuple[int, int, str]]:
    offset = 0
    while offset < len(data):
        watch, mask, _, length = _EVENT.unpack_from(data, offset)
        offset += _EVENT.size
        yield watch, mask, os.fsdecode(data[offset : offset + length].rstrip(b"\0"))
        offset += length


def _check(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise InotifyMissing(code, os.strerror(code))
    return result

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
_EVENT = struct.Struct("iIII")
_READ_BYTES = 1 << 16
_libc = ctypes.CDLL(None, use_errno=True)


class InotifyMissing(OSError):
    """The system has no instance or watch left, or no inotify."""


@dataclass(frozen=True, slots=True)
class NameEvent:
    """One name that has appeared."""

    name: str
    was_moved: bool
    """Whether it was renamed to this name; else it was created under it."""


class InotifyWatch:
    """A watch for new names in one directory."""

    def __init__(self, directory: Path) -> None:
        """Begin to watch; raise InotifyMissing."""
        self.fd = _check(_libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        try:
            _check(_libc.inotify_add_watch(self.fd, os.fsencode(directory), _IN_MOVED_TO | _IN_CREATE | _IN_ONLYDIR))
        except InotifyMissing:
            self.close()
            raise

    def read(self) -> list[NameEvent] | None:
        """Return the new names in their order; None if there were too many, so that the directory must be read."""
        events: list[NameEvent] = []
        has_lost = False
        while data := self._read():
            for mask, name in _events(data):
                has_lost |= bool(mask & (_IN_Q_OVERFLOW | _IN_IGNORED))
                if name:
                    events.append(NameEvent(name, was_moved=bool(mask & _IN_MOVED_TO)))
        return None if has_lost else events

    def close(self) -> None:
        """End the watch."""
        os.close(self.fd)

    def _read(self) -> bytes:
        try:
            return os.read(self.fd, _READ_BYTES)
        except BlockingIOError:
            return b""


def _events(data: bytes) -> Iterator[tuple[int, str]]:
    offset = 0
    while offset < len(data):
        _, mask, _, length = _EVENT.unpack_from(data, offset)
        offset += _EVENT.size
        yield mask, os.fsdecode(data[offset : offset + length].rstrip(b"\0"))
        offset += length


def _check(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise InotifyMissing(code, os.strerror(code))
    return result

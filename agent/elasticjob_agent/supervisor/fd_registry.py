"""Which of this process's descriptors are ours, so that a fork of the process can be rid of them.

A plain fork copies everything. In the child our sockets would keep the starter believing that its agent lives, and
our pipe ends would keep streams open for ever. So whatever this package keeps open is noted here, and closed in
every forked child before it runs anything else. Exec'ed children never have them: all are close-on-exec.
"""

import contextlib
import os
import weakref
from typing import Protocol


class Closable(Protocol):
    """A socket, a selector."""

    def close(self) -> None:
        """Close it in this process only."""


_fds: set[int] = set()
_objects: weakref.WeakSet[Closable] = weakref.WeakSet()


def register(fd: int) -> int:
    """Note this descriptor; return it."""
    _fds.add(fd)
    return fd


def close(fd: int) -> None:
    """Close a descriptor that was noted."""
    _fds.discard(fd)
    os.close(fd)


def register_object(thing: Closable) -> None:
    """Note something that closes its descriptor itself."""
    _objects.add(thing)


def _close_all_in_child() -> None:
    for thing in list(_objects):
        thing.close()
    for fd in _fds:
        with contextlib.suppress(OSError):
            os.close(fd)
    _fds.clear()


os.register_at_fork(after_in_child=_close_all_in_child)

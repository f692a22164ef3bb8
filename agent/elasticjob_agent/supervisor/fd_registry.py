"""Registry of the descriptors that this package keeps open, which every fork of the process closes.

A plain fork copies every descriptor. With a copy of our socket, the fork server would not notice the end of its agent.
With a copy of a pipe, a stream would never end. So everything that this package keeps open is registered here, and a
forked child closes it before it runs anything else. A child that calls exec never has them: all are close-on-exec.
"""

import contextlib
import os
import weakref
from typing import Protocol


class Closable(Protocol):
    """An object that owns a descriptor, such as a socket or a selector."""

    def close(self) -> None:
        """Close it in this process only."""


_fds: set[int] = set()
_objects: weakref.WeakSet[Closable] = weakref.WeakSet()


def register(fd: int) -> int:
    """Register this descriptor and return it."""
    _fds.add(fd)
    return fd


def close(fd: int) -> None:
    """Close a registered descriptor."""
    _fds.discard(fd)
    os.close(fd)


def register_object(thing: Closable) -> None:
    """Register an object that closes its descriptor itself."""
    _objects.add(thing)


def _close_all_in_child() -> None:
    for thing in list(_objects):
        thing.close()
    for fd in _fds:
        with contextlib.suppress(OSError):
            os.close(fd)
    _fds.clear()


os.register_at_fork(after_in_child=_close_all_in_child)

"""Note the variables that a warm worker changes in memory that the agent reads.

Imports ahead have not seen these values. A worker that is imported anew in each round would have imported a package
after such a change. So the agent compares them with those that recorded workers have changed.
"""

import ctypes

from . import libc
from .originals import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_SLOT_BYTES = 1 << 10
"""The memory of one worker: names, each with a newline, up to the first NUL. The agent has the same number."""


class ChangedVariables:
    """The memory of all workers of a zygote; it is shared with the agent."""

    def __init__(self, fd: int) -> None:
        """Map this memory file, and close it. Raise OSError if that is not possible."""
        size = os.fstat(fd).st_size
        self._address = libc.map_shared(fd, size)
        os.close(fd)
        self._slots = size // _SLOT_BYTES

    def noting(self, worker: int) -> "Callable[[bytes], None]":
        """Return a function that notes a variable of this process, which is the worker with this number."""
        slot = self._address + worker % self._slots * _SLOT_BYTES
        pid = os.getpid()
        noted: "set[bytes]" = set()
        used = 0
        ctypes.memset(slot, 0, 1)

        def note(name: bytes) -> None:
            nonlocal used
            line = name + b"\n\0"
            if name in noted or used + len(line) > _SLOT_BYTES or os.getpid() != pid:
                return
            noted.add(name)
            ctypes.memmove(slot + used, line, len(line))
            used += len(line) - 1

        return note

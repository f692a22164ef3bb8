"""Note the variables that a warm worker changes in memory that the agent reads.

Imports ahead have not seen these values. A worker that is imported anew in each round would have imported a package
after such a change. So the agent compares them with those that recorded workers have changed.
"""

import ctypes
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_getpid, _fsencode = os.getpid, os.fsencode  # an import may replace those in os
_SLOT_BYTES = 1 << 10
"""The memory of one worker: names, each with a newline, up to the first NUL. The agent has the same number."""
_MORE = b"=\n\0"
"""The last line of a worker that had no place for a name. No name of a variable has this character."""


class ReadNames:
    """The variables that imports ahead may have read, or have looked for."""

    def __init__(
        self, *, names: "Iterable[str]", in_c: "Iterable[bytes]", without: "Iterable[bytes]", are_all: bool
    ) -> None:
        """`names` were read, and those that begin with `in_c` may be; with `are_all`, all. `without` are left out."""
        self._names = frozenset(map(_fsencode, names))
        self._in_c = tuple(in_c)
        self._without = frozenset(without)
        self._are_all = are_all

    def __contains__(self, name: bytes) -> bool:
        is_read = self._are_all or name in self._names or name.startswith(self._in_c)
        return is_read and name not in self._without


class ChangedVariables:
    """The memory of all workers of a zygote; it is shared with the agent."""

    def __init__(self, address: int, size: int) -> None:
        """Use this memory, which forks share."""
        self._address = address
        self._slots = size // _SLOT_BYTES

    def noting(self, worker: int, read: ReadNames) -> "Callable[[bytes], None]":
        """Return a function that notes a variable of this process, which is the worker with this number.

        It stays in `os.environ`. So it must lead to none of our other objects. Some of them have references to the
        module of the script, whose cycles Python would not collect at its end.
        """
        slot = self._address + worker % self._slots * _SLOT_BYTES
        pid = _getpid()
        noted: "set[bytes]" = set()
        used, is_full = 0, False
        ctypes.memset(slot, 0, 1)

        def note(name: bytes) -> None:
            nonlocal used, is_full
            line = name + b"\n\0"
            if name in noted or is_full or name not in read or _getpid() != pid:
                return
            if used + len(line) > _SLOT_BYTES - len(_MORE):
                line, is_full = _MORE, True
            noted.add(name)
            ctypes.memmove(slot + used, line, len(line))
            used += len(line) - 1

        return note

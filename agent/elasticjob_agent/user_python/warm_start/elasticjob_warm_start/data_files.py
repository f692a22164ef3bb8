"""Record the files of data that modules read while they are imported, such as a configuration.

A forked worker has what they contained then. So it starts cold when one of them has changed. A file that an import
itself removes does not count.

An import ahead writes no file: the file may be that of a worker which trains, for example its log.
"""

import builtins
import contextlib
import errno
import functools
import io
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_KERNEL = ("/proc/", "/sys/", "/dev/")
"""Folders whose files are facts of the kernel."""
_WRITES = frozenset("wax+")


class _Recording:
    """A function in the place of `open`. Unlike a function of Python it becomes no method of a class that keeps it."""

    def __init__(self, original: "Any", on_write: "Callable[[], None]") -> None:
        self.original = original
        self.on_write = on_write
        self.may_write = True
        self.is_on = True
        self.read: "dict[str, int]" = {}
        self.written: "set[str]" = set()
        functools.update_wrapper(self, original)

    @property  # type: ignore[misc]
    def __class__(self) -> "Any":
        """Return the class of the original, for a check by isinstance."""
        return type(self.original)

    def __reduce__(self) -> str:
        """Return the name of the original: a copy of it is the same function."""
        return "open"

    def __call__(self, file: "Any", mode: str = "r", *arguments: "Any", **options: "Any") -> "Any":
        if self.is_on and not self.may_write and self._would_write(file, mode, options):
            self.on_write()
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), file)
        opened = self.original(file, mode, *arguments, **options)
        if self.is_on and not isinstance(file, int):
            with contextlib.suppress(OSError, ValueError):  # an opener may return a file without a descriptor
                self._note(os.path.abspath(os.fsdecode(file)), mode, os.fstat(opened.fileno()).st_mtime_ns)
        return opened

    @staticmethod
    def _would_write(file: "Any", mode: str, options: "dict[str, Any]") -> bool:
        """Whether this may change a file; one with an opener is a temporary one, which has a reason of its own."""
        if isinstance(file, int) or _WRITES.isdisjoint(mode) or options.get("opener") is not None:
            return False
        return not os.path.abspath(os.fsdecode(file)).startswith(_KERNEL)

    def _note(self, path: str, mode: str, modified_ns: int) -> None:
        if not _WRITES.isdisjoint(mode):
            self.written.add(path)
        elif not path.startswith(_KERNEL):
            self.read.setdefault(path, modified_ns)


class DataFiles:
    """Records what is opened by Python's function `open`; it begins at once."""

    def __init__(self, on_write: "Callable[[], None]") -> None:
        """Call this function for each file that is not written."""
        self._recording = _Recording(io.open, on_write)
        self.replaced: "tuple[object, object]" = (self._recording, self._recording.original)
        """The function that modules may keep, and the one in its place."""
        builtins.open = io.open = self._recording

    def write_no_more(self) -> None:
        """Let each attempt to write a file fail as in a file system that can only be read."""
        self._recording.may_write = False

    def stop(self) -> "dict[str, int]":
        """Record no more; return the files that were read, each with its time of modification in nanoseconds."""
        recording, original = self._recording, self._recording.original
        recording.is_on = False
        # An import may have put a function of its own in its place, which calls this one.
        if builtins.open is recording:
            builtins.open = original
        if io.open is recording:
            io.open = original
        accessor: "Any" = getattr(sys.modules.get("pathlib"), "_NormalAccessor", None)  # of Python 3.10
        if getattr(accessor, "open", None) is recording:
            accessor.open = recording.original
        return {
            path: modified_ns
            for path, modified_ns in recording.read.items()
            if path not in recording.written and os.path.exists(path)
        }

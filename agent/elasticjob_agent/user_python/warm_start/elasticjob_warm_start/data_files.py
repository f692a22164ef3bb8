"""Record the files of data that modules read while they are imported, such as a configuration.

A forked worker has what they contained then. So it starts cold when one of them has changed. A file that an import
itself writes or removes does not count.
"""

import builtins
import contextlib
import io
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_KERNEL = ("/proc/", "/sys/", "/dev/")
"""Folders whose files are facts of the kernel."""
_WRITES = frozenset("wax+")


class _Recording:
    """A function in the place of `open`. Unlike a function of Python it becomes no method of a class that keeps it."""

    def __init__(self, original: "Any") -> None:
        self.original = original
        self.is_on = True
        self.read: "dict[str, int]" = {}
        self.written: "set[str]" = set()

    def __call__(self, file: "Any", mode: str = "r", *arguments: "Any", **options: "Any") -> "Any":
        opened = self.original(file, mode, *arguments, **options)
        if self.is_on and not isinstance(file, int):
            with contextlib.suppress(OSError, ValueError):  # an opener may return a file without a descriptor
                self._note(os.path.abspath(os.fsdecode(file)), mode, os.fstat(opened.fileno()).st_mtime_ns)
        return opened

    def _note(self, path: str, mode: str, modified_ns: int) -> None:
        if not _WRITES.isdisjoint(mode):
            self.written.add(path)
        elif not path.startswith(_KERNEL):
            self.read.setdefault(path, modified_ns)


class DataFiles:
    """Records what is opened by Python's function `open`; it begins at once."""

    def __init__(self) -> None:
        self._recording = _Recording(io.open)
        self.replaced: "tuple[object, object]" = (self._recording, self._recording.original)
        """The function that modules may keep, and the one in its place."""
        builtins.open = io.open = self._recording

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

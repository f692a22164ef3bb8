"""Deletion in two steps: one rename, which is atomic, and later the work.

A directory of a million files takes seconds to delete. A part that is half deleted would look whole. So everything is
first renamed into one directory, and a thread empties that. Directories are flattened instead of descended into: so
no depth is too great.
"""

import contextlib
import errno
import itertools
import os
import threading
from pathlib import Path

from elasticjob_agent.keep.volume.errors import translated

_TAKEN = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR, errno.EISDIR)
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PASSES = 10_000
"""How often the trash is read again. Each pass ends one level of directories; a stray process may still fill one."""


class TrashDir:
    """The directory of things that are to be deleted."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._numbers = itertools.count()
        self._emptying = threading.Lock()

    def throw_away(self, path: Path) -> None:
        """Rename this file or directory into the trash, if it exists; raise VolumeError."""
        with translated(f"cannot delete {path}"), contextlib.suppress(FileNotFoundError):
            trash = os.open(self._path, _DIRECTORY)
            try:
                self._move(path, None, trash)
            finally:
                os.close(trash)

    def empty(self) -> None:
        """Delete everything in the trash, as far as that is allowed.

        Another thread may throw something away meanwhile. If another one empties the trash, this one waits.
        """
        with self._emptying, contextlib.suppress(OSError):
            trash = os.open(self._path, _DIRECTORY)
            try:
                for _ in range(_PASSES):
                    names = os.listdir(trash)  # noqa: PTH208 - a descriptor has no path
                    if sum(self._delete(trash, name) for name in names) == 0:
                        return
            finally:
                os.close(trash)

    def _delete(self, trash: int, name: str) -> bool:
        """Delete one entry of the trash, and move its directories there; return whether anything has changed."""
        try:
            with contextlib.suppress(IsADirectoryError, PermissionError):
                os.unlink(name, dir_fd=trash)
                return True
            _make_writable(trash, name)
            fd = os.open(name, _DIRECTORY, dir_fd=trash)
        except OSError:
            return False
        try:
            has_changed = self._empty_directory(trash, fd)
        finally:
            os.close(fd)
        with contextlib.suppress(OSError):
            os.rmdir(name, dir_fd=trash)
            return True
        return has_changed

    def _empty_directory(self, trash: int, fd: int) -> bool:
        has_changed = False
        with contextlib.suppress(OSError), os.scandir(fd) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    if entry.is_dir(follow_symlinks=False):
                        _make_writable(fd, entry.name)
                        self._move(entry.name, fd, trash)
                    else:
                        os.unlink(entry.name, dir_fd=fd)
                    has_changed = True
        return has_changed

    def _move(self, name: str | Path, directory: int | None, trash: int) -> None:
        """Rename one entry of a directory to a free number; an earlier keeper has left some."""
        for number in self._numbers:
            try:
                os.rename(name, str(number), src_dir_fd=directory, dst_dir_fd=trash)
            except OSError as error:
                if error.errno not in _TAKEN:
                    raise
            else:
                return


def _make_writable(parent: int, name: str) -> None:
    """Let us delete what this directory contains; a script may have protected it."""
    with contextlib.suppress(OSError):
        fd = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
        try:
            os.chmod(f"/proc/self/fd/{fd}", 0o700)  # noqa: PTH101 - without following a link, and without reading
        finally:
            os.close(fd)

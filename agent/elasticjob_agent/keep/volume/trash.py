"""Deletion in two steps: one rename, which is atomic, and later the work.

A directory of a million files takes seconds to delete. A part that is half deleted would look whole. So everything is
first renamed into one directory, and a thread empties that. Directories are flattened instead of descended into: so
no depth is too great.
"""

import contextlib
import errno
import itertools
import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from elasticjob_agent.keep.volume.errors import translated

_TAKEN = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR, errno.EISDIR)
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PASSES = 10_000
"""How often the trash is read again. Each pass ends one level of directories; a stray process may still fill one."""


class TrashDir:
    """The directory of things that are to be deleted."""

    def __init__(self, path: Path, *, below: int | None = None, may_delete: Callable[[], bool] = lambda: True) -> None:
        """`path` is relative to the descriptor `below`, if one is given.

        `may_delete` is called before each deletion. If it returns False, the rest stays.
        """
        self._path = path
        self._below = below
        self._may_delete = may_delete
        self._numbers = itertools.count()
        self._emptying = threading.Lock()
        self.has_news = True
        """Whether something may have come since `empty` began last."""

    def throw_away(self, path: Path) -> None:
        """Rename this file or directory into the trash, if it exists; raise VolumeError."""
        what = translated(f"cannot delete {str(path)!r:.300}")
        with what, contextlib.suppress(FileNotFoundError), self._opened() as trash:
            self._move(path, None, trash)
            self.has_news = True

    def is_empty(self) -> bool:
        """Return whether nothing is left to delete, as far as that can be read."""
        with contextlib.suppress(OSError), self._opened() as trash, os.scandir(trash) as entries:
            return next(entries, None) is None
        return True

    def empty(self) -> None:
        """Delete everything in the trash, as far as that is allowed; this can take seconds.

        Another thread may throw something away meanwhile. If another one empties the trash, this one waits.
        """
        with self._emptying:
            self.has_news = False
            self._delete_entries(sys.maxsize)

    def delete_some(self, count: int) -> None:
        """Delete so many entries at most, the newest first, without waiting for another thread."""
        self._delete_entries(count)

    def _delete_entries(self, count: int) -> None:
        with contextlib.suppress(OSError), self._opened() as trash:
            for _ in range(_PASSES):
                if (deleted := self._pass(trash, count)) == 0:
                    return
                count -= deleted

    @contextlib.contextmanager
    def _opened(self) -> Iterator[int]:
        trash = os.open(self._path, _DIRECTORY, dir_fd=self._below)
        try:
            yield trash
        finally:
            os.close(trash)

    def _pass(self, trash: int, count: int) -> int:
        """Read the trash once; return how many entries were deleted or moved."""
        deleted = 0
        names = os.listdir(trash)
        for name in sorted(names, key=lambda name: (len(name), name), reverse=True):
            if deleted >= count or not self._may_delete():
                break
            deleted += self._delete(trash, name, count - deleted)
        return deleted

    def _delete(self, trash: int, name: str, count: int) -> int:
        """Delete one entry of the trash, and move its directories there; return how many entries have changed."""
        try:
            with contextlib.suppress(IsADirectoryError, PermissionError):
                os.unlink(name, dir_fd=trash)
                return 1
            _make_writable(trash, name)
            fd = os.open(name, _DIRECTORY, dir_fd=trash)
        except OSError:
            return 0
        try:
            changed = self._empty_directory(trash, fd, count)
        finally:
            os.close(fd)
        with contextlib.suppress(OSError):
            os.rmdir(name, dir_fd=trash)
            changed += 1
        return changed

    def _empty_directory(self, trash: int, fd: int, count: int) -> int:
        changed = 0
        with contextlib.suppress(OSError), os.scandir(fd) as entries:
            for entry in itertools.islice(entries, count):
                if not self._may_delete():
                    break
                with contextlib.suppress(OSError):
                    if entry.is_dir(follow_symlinks=False):
                        _make_writable(fd, entry.name)
                        self._move(entry.name, fd, trash)
                    else:
                        os.unlink(entry.name, dir_fd=fd)
                    changed += 1
        return changed

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

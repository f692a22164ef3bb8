"""Reading directories that a script may still change: no symbolic link is followed, and every walk is bounded.

A worker can run as another user than the keeper, and keep a descriptor of a directory that was moved away. So a check
of a path is worth nothing afterwards. Each file is reached from a descriptor of its part, one component at a time.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from elasticjob_agent.keep.volume.errors import (
    PartChangedError,
    PartRefused,
    ResourcesShortError,
    error_of,
    translated,
)
from elasticjob_agent.keep.volume.file_names import DEPTH_LIMIT, FILE_LIMIT, check_file_name
from elasticjob_agent.keep.volume.trash import TrashDir

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# NONBLOCK: a FIFO that has taken the place of a file must not block the keeper.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A regular file of a part, by its relative name."""

    name: str
    size: int
    mtime_ns: int
    links: int
    """How many names the file has in its file system."""
    inode: int
    """Its number there."""


@contextmanager
def open_directory(path: Path) -> Iterator[int]:
    """Open a directory that is not a symbolic link; raise VolumeError if it is not one."""
    with translated(f"cannot open the directory {path}"):
        fd = os.open(path, _DIRECTORY)
    try:
        yield fd
    finally:
        os.close(fd)


def list_files(path: Path) -> tuple[FoundFile, ...]:
    """Return the files below this directory, sorted by name.

    Raises:
        PartRefused: it has other things than files and directories, too many of them, or names that are not allowed.
        VolumeError: it cannot be read.
    """
    budget = [FILE_LIMIT]
    with open_directory(path) as fd, translated(f"cannot read {path}"):
        return tuple(sorted(_walk(fd, "", budget), key=lambda file: file.name))


def _walk(fd: int, prefix: str, budget: list[int]) -> Iterator[FoundFile]:
    with os.scandir(fd) as entries:
        for entry in entries:
            budget[0] -= 1
            if budget[0] < 0:
                raise PartRefused(f"the part has more than {FILE_LIMIT} files and directories")
            name = prefix + entry.name
            check_file_name(name)
            found = entry.stat(follow_symlinks=False)
            if stat.S_ISDIR(found.st_mode):
                yield from _walk_below(fd, entry.name, name, budget)
            elif stat.S_ISREG(found.st_mode):
                yield FoundFile(name, found.st_size, found.st_mtime_ns, found.st_nlink, found.st_ino)
            else:
                raise PartRefused(f"{name!r:.120} is neither a file nor a directory")


def _walk_below(parent: int, component: str, name: str, budget: list[int]) -> Iterator[FoundFile]:
    if name.count("/") >= DEPTH_LIMIT:
        raise PartRefused(f"the directory {name!r:.120} is too deep; a file is below {DEPTH_LIMIT} at most")
    fd = os.open(component, _DIRECTORY, dir_fd=parent)
    try:
        yield from _walk(fd, f"{name}/", budget)
    finally:
        os.close(fd)


@contextmanager
def open_parent(path: Path, name: str) -> Iterator[tuple[int, str]]:
    """Open the directory of the file `name` below `path`; yield its descriptor and the last component.

    Raises:
        PartChangedError: a directory is gone, or is none any more.
        ResourcesShortError: it cannot be opened for want of descriptors or memory.
    """
    *directories, last = name.split("/")
    fd = -1
    try:
        fd = os.open(path, _DIRECTORY)
        for component in directories:
            below = os.open(component, _DIRECTORY, dir_fd=fd)
            os.close(fd)
            fd = below
    except OSError as error:
        if fd >= 0:
            os.close(fd)
        raise error_of(error, f"{name!r:.120} in {path} cannot be reached", PartChangedError) from error
    try:
        yield fd, last
    finally:
        os.close(fd)


def open_file(path: Path, name: str) -> int:
    """Return a descriptor of the regular file `name` below `path`, for reading.

    Raises:
        PartChangedError: it is gone, or is no regular file.
        ResourcesShortError: it cannot be opened for want of descriptors or memory.
    """
    with open_parent(path, name) as (parent, last):
        try:
            fd = os.open(last, _FILE, dir_fd=parent)
        except OSError as error:
            raise error_of(error, f"{name!r:.120} in {path} cannot be opened", PartChangedError) from error
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise PartChangedError(f"{name!r:.120} in {path} is no regular file any more")
    return fd


def read_file(path: Path, most_bytes: int) -> bytes | None:
    """Return what a regular file has, up to a limit; None for anything else, which a script may have put there.

    Raises:
        ResourcesShortError: it cannot be read for want of descriptors or memory.
    """
    try:
        fd = os.open(path, _FILE)
        with os.fdopen(fd, "rb") as file:
            return file.read(most_bytes) if stat.S_ISREG(os.fstat(fd).st_mode) else None
    except OSError as error:
        why = error_of(error, f"cannot read {path}")
        if isinstance(why, ResourcesShortError):
            raise why from error
        return None


def temporary_of(path: Path) -> Path:
    """Return the name under which `replace_file` writes; it is left if the process ends meanwhile."""
    return path.with_name(f".{path.name}.tmp")


def replace_file(path: Path, data: bytes, trash: TrashDir) -> None:
    """Write `data` under another name, then rename the file to `path`; raise VolumeError."""
    temporary = temporary_of(path)
    for place in (temporary, path):  # a script may have put anything there
        if place.is_dir() and not place.is_symlink():
            trash.throw_away(place)
    with translated(f"cannot write {path}"):
        try:
            temporary.unlink(missing_ok=True)
            with os.fdopen(os.open(temporary, _NEW_FILE, 0o600), "wb") as file:
                file.write(data)
            temporary.replace(path)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise

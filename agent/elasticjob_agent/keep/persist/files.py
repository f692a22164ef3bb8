"""File operations below a directory that others may change: no symbolic link is followed, and each walk is bounded.

A name is reached from a descriptor, one component at a time. So nothing that another process puts there leads to
another place.
"""

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from elasticjob_agent.keep.persist.errors import PersistRefused
from elasticjob_agent.keep.volume.file_names import DEPTH_LIMIT

ENTRY_LIMIT = 10_000
"""The most entries of a directory that are read."""
WALK_LIMIT = 1_000_000
"""The most files and directories of a whole step."""
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NOT_EMPTY = (errno.ENOTEMPTY, errno.EEXIST)


@contextlib.contextmanager
def opened(path: str | Path, *, below: int | None = None) -> Iterator[int]:
    """Open a directory that is no symbolic link."""
    fd = os.open(path, _DIRECTORY, dir_fd=below)
    try:
        yield fd
    finally:
        os.close(fd)


@contextlib.contextmanager
def made(name: str, *, below: int) -> Iterator[int]:
    """Make a directory unless it is there, and open it."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, 0o755, dir_fd=below)
    with opened(name, below=below) as fd:
        yield fd


@contextlib.contextmanager
def parent_of(name: str, *, below: int, makes: bool = False) -> Iterator[tuple[int, str]]:
    """Open the directory of the relative file `name`, and yield it with the last component."""
    *directories, last = name.split("/")
    with contextlib.ExitStack() as stack:
        fd = below
        for component in directories:
            fd = stack.enter_context((made if makes else opened)(component, below=fd))
        yield fd, last


def create(name: str, *, below: int) -> int:
    """Return a descriptor of a new file for writing."""
    return os.open(name, _CREATE, 0o644, dir_fd=below)


def write_new(name: str, data: bytes, *, below: int) -> None:
    """Write a file that is not there yet, and return when the disk has it."""
    fd = create(name, below=below)
    try:
        write_all(fd, data)
        os.fsync(fd)
    finally:
        os.close(fd)


def write_all(fd: int, data: bytes) -> None:
    """Write all of this: one call may write less."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def read(name: str, most: int, *, below: int) -> bytes:
    """Return the contents of a regular file, `most` bytes at most."""
    fd = os.open(name, _READ, dir_fd=below)
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise PersistRefused(f"{name!r:.80} is no regular file")
        return file.read(most)


def entries(fd: int, what: str) -> list["os.DirEntry[str]"]:
    """Return the entries of a directory; raise PersistRefused if there are too many."""
    found: list[os.DirEntry[str]] = []
    with os.scandir(fd) as scan:
        for entry in scan:
            if len(found) == ENTRY_LIMIT:
                raise PersistRefused(f"{what} has more than {ENTRY_LIMIT} entries; remove what is not of the job")
            found.append(entry)
    return found


def walk(fd: int, prefix: str = "", budget: list[int] | None = None) -> Iterator[tuple[str, os.stat_result]]:
    """Yield each file below a directory with its relative name; raise PersistRefused for anything else."""
    budget = [WALK_LIMIT] if budget is None else budget
    with os.scandir(fd) as scan:
        for entry in scan:
            budget[0] -= 1
            if budget[0] < 0:
                raise PersistRefused(f"the step has more than {WALK_LIMIT} files and directories")
            name, found = prefix + entry.name, entry.stat(follow_symlinks=False)
            if stat.S_ISDIR(found.st_mode):
                if name.count("/") >= DEPTH_LIMIT:  # each level has a descriptor and a frame of Python
                    raise PersistRefused(f"{name!r:.120} is too deep; a file is below {DEPTH_LIMIT} at most")
                with opened(entry.name, below=fd) as below:
                    yield from walk(below, name + "/", budget)
            elif stat.S_ISREG(found.st_mode):
                yield name, found
            else:
                raise PersistRefused(f"{name!r:.120} is neither a file nor a directory")


def rename_new(source: str, target: str, *, below: int, into: int) -> bool:
    """Rename a directory to a name that is free; return whether that was done here and now."""
    try:
        os.rename(source, target, src_dir_fd=below, dst_dir_fd=into)
    except FileNotFoundError:
        return False
    except OSError as error:
        if error.errno not in _NOT_EMPTY:
            raise
        return False
    return True


def is_directory(name: str, *, below: int) -> bool:
    """Whether this is a directory, and no symbolic link to one."""
    try:
        return stat.S_ISDIR(os.stat(name, dir_fd=below, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False

"""The directory of one agent's volume, in a directory that several agents share, such as /dev/shm.

    <shared>/elasticjob-keep-<user>-<job>-<n>/          locked by the agent that uses it
    <shared>/elasticjob-keep-<user>-<job>-<n>/volume    the volume of its keeper

The kernel unlocks the directory of an agent that was killed, and its volume remains. The next agent of the same job and
user takes the first directory without a lock. So it goes on with that volume, or its keeper deletes what is old.
A name that another user has taken, or that is a link or a file, is passed over.
"""

import contextlib
import errno
import fcntl
import hashlib
import os
from pathlib import Path

_MODE = 0o700
_MOST = 64
"""Agents of one job and user in one directory."""
_FOREIGN = (errno.ENOTDIR, errno.ELOOP, errno.EACCES)
"""Errors of opening a file, a link, or a directory of another user."""


class KeepDirError(Exception):
    """No directory can be used for the volume of this agent."""


class KeepDir:
    """A directory that no other agent uses until `close`."""

    def __init__(self, path: Path, fd: int) -> None:
        """`fd` is open and locked."""
        self._path = path
        self._fd = fd

    @property
    def volume(self) -> Path:
        """The root of the volume."""
        return self._path / "volume"

    def close(self) -> None:
        """Unlock the directory, and remove it if the volume is erased."""
        with contextlib.suppress(OSError):
            self._path.rmdir()
        os.close(self._fd)


def claim_keep_dir(shared: Path, job: str, *, slot: int | None) -> KeepDir:
    """Return the directory of this job's agent: that of its slot if it has one and it is free, else the first free one.

    Raises:
        KeepDirError: there is none, or it cannot be made.
    """
    digest = hashlib.sha1(job.encode(), usedforsecurity=False).hexdigest()[:12]
    numbers = [*([] if slot is None else [slot]), *(n for n in range(_MOST) if n != slot)]
    try:
        for number in numbers:
            path = shared / f"elasticjob-keep-{os.geteuid()}-{digest}-{number}"
            if (fd := _lock(path)) is not None:
                return KeepDir(path, fd)
    except OSError as error:
        raise KeepDirError(f"cannot use {error.filename or shared}: {error.strerror}") from error
    raise KeepDirError(f"{_MOST} directories of this job in {shared} are in use, of another user, or no directories")


def _lock(path: Path) -> int | None:
    """Return a descriptor that locks the directory, which is made if it is missing; None if it cannot be used."""
    while True:
        with contextlib.suppress(FileExistsError):
            path.mkdir(mode=_MODE)
        # An agent may remove its directory at any moment.
        with contextlib.suppress(FileNotFoundError):
            try:
                fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            except OSError as error:
                if error.errno in _FOREIGN:
                    return None
                raise
            with contextlib.ExitStack() as unless_locked:
                unless_locked.callback(os.close, fd)
                if not _try_lock(fd):
                    return None
                if os.path.samestat(os.fstat(fd), path.stat()):
                    unless_locked.pop_all()
                    return fd


def _try_lock(fd: int) -> bool:
    """Return whether this process has the lock of a directory of its own user now."""
    if os.fstat(fd).st_uid != os.geteuid():
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True

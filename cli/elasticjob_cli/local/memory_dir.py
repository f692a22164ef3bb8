"""The folder of a run in memory: the volumes of `spec.keep`. It is in /dev/shm, and is removed with the run.

A run that was killed could not remove it. So each folder is locked by the run that has made it. The next run that needs
one removes those of its user whose lock is free.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from elasticjob_cli.errors import RunFolderError
from elasticjob_cli.local.volumes import SHARED_MEMORY

_PREFIX = "elasticjob-run-"


@dataclass(frozen=True, slots=True)
class MemoryDir:
    """A folder in memory that only this user can enter; this process has its lock."""

    path: Path
    fd: int

    def remove(self) -> None:
        """Delete the folder with all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)


@contextmanager
def memory_dir(parent: Path = Path(SHARED_MEMORY)) -> Iterator[MemoryDir]:
    """Make a folder in memory for the time of a run; raise RunFolderError if that is not possible."""
    try:
        _remove_abandoned(parent)
        made = _make(parent)
    except OSError as error:
        raise RunFolderError(
            f"{parent}: spec.keep needs memory there, and a folder cannot be made: {error.strerror}; "
            "make room in it, or remove spec.keep to run here"
        ) from error
    try:
        yield made
    finally:
        made.remove()
        os.close(made.fd)


def _make(parent: Path) -> MemoryDir:
    while True:
        path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(fd, fcntl.LOCK_EX)
        if path.exists():
            return MemoryDir(path, fd)
        os.close(fd)  # another run took it for an abandoned one, before it was locked


def _remove_abandoned(parent: Path) -> None:
    for path in parent.glob(f"{_PREFIX}*"):
        try:
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            continue  # it is gone, or a link
        try:
            # Another user may fill an own one faster than it is deleted.
            if os.fstat(fd).st_uid == os.geteuid():
                _remove_unlocked(path, fd)
        finally:
            os.close(fd)


def _remove_unlocked(path: Path, fd: int) -> None:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return  # its run goes on
    shutil.rmtree(path, ignore_errors=True)

"""The root of a volume: its owner, its lock, and its first directories."""

import contextlib
import fcntl
import os
import stat
import time
from pathlib import Path

from elasticjob_agent.keep.volume.errors import VolumeUnavailable
from elasticjob_agent.keep.volume.paths import VolumePath

_LOCK_PAUSE_S = 0.02
_OURS = 0o700
_READABLE = 0o755
_MODES = {"in": _READABLE, "held": _OURS, "part": _OURS, "kept": _READABLE, "persist": _OURS, "trash": _OURS}


def lock_root(root: Path, wait_s: float, *, is_shared: bool) -> int:
    """Create the directory if it is missing, lock it, and return its descriptor; the lock ends with the process.

    `is_shared` is whether workers of another user pass through it; none of them may write in it. Another keeper may be
    ending at this moment, so a lock is awaited for `wait_s`.

    Raises:
        VolumeUnavailable: it is not a directory of this user, or another keeper has it.
    """
    try:
        with contextlib.suppress(FileExistsError):
            root.mkdir(mode=_OURS, parents=True)
        fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise VolumeUnavailable(f"cannot use {root}: {error.strerror}") from error
    try:
        _check_owner(root, fd)
        _protect(fd, _READABLE if is_shared else _OURS)
        _lock(root, fd, wait_s)
    except BaseException:
        os.close(fd)
        raise
    return fd


def make_directories(paths: VolumePath) -> None:
    """Create the directories of a volume that are missing; raise VolumeUnavailable."""
    for name, mode in _MODES.items():
        path = paths.root / name
        try:
            path.mkdir(exist_ok=True)
            if not stat.S_ISDIR(path.lstat().st_mode):
                raise VolumeUnavailable(f"{path} is not a directory")
            path.chmod(mode)
        except OSError as error:
            raise VolumeUnavailable(f"cannot use {path}: {error.strerror}") from error


def remove_directories(paths: VolumePath) -> None:
    """Remove the record and the directories as far as they are empty, and then the root."""
    with contextlib.suppress(OSError):
        paths.record.unlink()
        for name in _MODES:
            (paths.root / name).rmdir()
        paths.root.rmdir()


def _check_owner(root: Path, fd: int) -> None:
    """Refuse a directory that another user has made: that user could exchange what is in it."""
    owner = os.fstat(fd).st_uid
    if owner not in {0, os.geteuid()}:
        raise VolumeUnavailable(f"{root} belongs to user {owner}; the keeper runs as {os.geteuid()}")


def _protect(fd: int, mode: int) -> None:
    """Let no other user rename what is in the directory; a volume of a pod is open to all at first."""
    if os.geteuid() in {0, os.fstat(fd).st_uid}:
        os.fchmod(fd, mode)


def _lock(root: Path, fd: int, wait_s: float) -> None:
    deadline_s = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline_s:
                raise VolumeUnavailable(f"another keeper uses {root}; it did not end within {wait_s:.0f} s") from None
            time.sleep(_LOCK_PAUSE_S)
        else:
            return

"""The shared directory itself, made if it is missing in a mounted volume, and never where the volume may be missing.

A path below no mounted volume may be one whose volume is not mounted yet. A directory that were made there would take
the steps of one node alone.

A link that another user of a volume has made could lead out of it. So each component is opened below the one before.
"""

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from elasticjob_agent.keep.persist.errors import PersistRefused

_MODE = 0o770
"""For this user and the group of the volume: `fsGroup` in Kubernetes."""
_PASSED = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MADE = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_MOST_LINKS = 40


@contextlib.contextmanager
def opened_root(path: Path, *, makes: bool = False) -> Iterator[int]:
    """Open the shared directory, for what is below it.

    With `makes`, it and those above it are made where they are missing in a mounted volume.

    Raises:
        OSError: it cannot be opened or made.
        PersistRefused: it is missing and no volume is mounted, or a link on the way may be another user's.
    """
    fd = _open(path, makes=makes)
    try:
        yield fd
    finally:
        os.close(fd)


def _open(path: Path, *, makes: bool) -> int:
    root, *left = path.absolute().parts
    links_left = _MOST_LINKS
    fd = os.open(root, _PASSED)
    try:
        while left:
            component = left.pop(0)  # an absolute path, from a link, begins anew at the root
            if links_left and (target := _read_link(fd, component)) is not None:
                _check_link(path, component, fd)
                links_left -= 1
                left[:0] = Path(target).parts
                continue
            below = _open_component(path, component, fd, makes=makes)
            os.close(fd)
            fd = below
    except BaseException:
        os.close(fd)
        raise
    return fd


def _read_link(fd: int, component: str) -> str | None:
    """Return where a link leads; None for anything else."""
    if component.startswith("/"):
        return None
    try:
        return os.readlink(component, dir_fd=fd)
    except OSError as error:
        if error.errno in {errno.EINVAL, errno.ENOENT}:
            return None
        raise


def _check_link(path: Path, component: str, fd: int) -> None:
    """Raise PersistRefused unless only root or this user can make links in the directory, and it is in no volume."""
    found = os.fstat(fd)
    is_own = found.st_uid in {0, os.geteuid()} and not found.st_mode & _OTHERS
    if not is_own or _is_in_volume(found):
        raise PersistRefused(
            f"cannot use {path}: {component!r:.120} is a link that another user may have made; "
            "remove it, or let keep.persistTo (--keep-persist-to) name a directory"
        )


def _open_component(path: Path, component: str, fd: int, *, makes: bool) -> int:
    try:
        return os.open(component, _PASSED, dir_fd=fd)
    except FileNotFoundError as error:
        if not makes:
            raise
        if not _is_in_volume(os.fstat(fd)):
            raise PersistRefused(
                f"cannot use {path}: No such file or directory; "
                "keep.persistTo needs a volume of all nodes: mount one there or above, or make the directory"
            ) from error
    return _make(component, fd)


def _make(component: str, fd: int) -> int:
    is_new = False
    with contextlib.suppress(FileExistsError):  # another node was faster
        os.mkdir(component, dir_fd=fd)
        is_new = True
    made = os.open(component, _MADE, dir_fd=fd)
    if is_new:
        # The mask of the process would take the group's right away. The group is inherited by the set-gid bit.
        os.fchmod(made, _MODE | (os.fstat(made).st_mode & stat.S_ISGID))
    return made


def _is_in_volume(found: os.stat_result) -> bool:
    return found.st_dev != Path("/").stat().st_dev

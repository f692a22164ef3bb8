"""The shared directory itself, made if it is missing in a mounted volume, and never where the volume may be missing.

A path below no mounted volume may be one whose volume is not mounted yet. A directory that were made there would take
the steps of one node alone.
"""

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from elasticjob_agent.keep.persist.errors import PersistRefused

_MODE = 0o770
"""For this user and the group of the volume: `fsGroup` in Kubernetes."""


@contextlib.contextmanager
def opened_root(path: Path) -> Iterator[int]:
    """Open the shared directory."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)


def make_missing(path: Path) -> None:
    """Make this directory and those above it that are missing; raise OSError, or PersistRefused without a volume."""
    if os.path.lexists(path):
        return
    missing = [path, *(each for each in path.parents if not os.path.lexists(each))]
    volume = missing[-1].parent
    if volume.stat().st_dev == Path("/").stat().st_dev:
        raise PersistRefused(
            f"cannot use {path}: No such file or directory; "
            "keep.persistTo needs a volume of all nodes: mount one there or above, or make the directory"
        )
    for directory in reversed(missing):
        _make(directory)


def _make(directory: Path) -> None:
    with contextlib.suppress(FileExistsError):  # another node was faster
        directory.mkdir()
        # The mask of the process would take the group's right away. The volume's group is inherited by the set-gid bit.
        directory.chmod(_MODE | (directory.stat().st_mode & stat.S_ISGID))

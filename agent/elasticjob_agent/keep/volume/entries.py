"""The entries below directories that a script may still change, for counts: no link is followed.

A worker of another user can exchange a directory for a link at any time. So each is opened below the one before.
"""

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from elasticjob_agent.keep.volume.errors import ResourcesShortError, VolumeError, translated

_LEVELS = 64
"""So many levels of directories are read: each needs a descriptor. A part has 8."""
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def stats_below(directory: Path | str, *, below: int | None = None, levels: int = _LEVELS) -> Iterator[os.stat_result]:
    """Yield each entry below this directory, as far as it can be read; raise ResourcesShortError.

    `directory` is relative to the descriptor `below`, if one is given.
    """
    with _skipped_if_unreadable(), contextlib.ExitStack() as stack:
        fd = os.open(directory, _DIRECTORY, dir_fd=below)
        stack.callback(os.close, fd)
        for entry in stack.enter_context(os.scandir(fd)):
            found = entry.stat(follow_symlinks=False)
            yield found
            if stat.S_ISDIR(found.st_mode) and levels:
                yield from stats_below(entry.name, below=fd, levels=levels - 1)


@contextlib.contextmanager
def _skipped_if_unreadable() -> Iterator[None]:
    """End the block at an error of a directory: it was renamed or deleted meanwhile, or a script has protected it."""
    try:
        with translated("cannot count the entries of a directory"):
            yield
    except ResourcesShortError:
        raise
    except VolumeError:
        return

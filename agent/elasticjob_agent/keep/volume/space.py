"""How much room a volume has: what the file system has left, or a limit of the volume's own."""

import contextlib
import itertools
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from elasticjob_agent.keep.volume.entries import stats_below
from elasticjob_agent.keep.volume.errors import ResourcesShortError, translated
from elasticjob_agent.keep.volume.paths import VolumePath

_MOST_ENTRIES = 20_000
"""So many files of a script's scratch are counted; a walk is bounded."""


def volume_bytes(root: Path, size_limit: int | None) -> int | None:
    """Return the size of a volume; None if neither the file system nor the limit bounds it; raise VolumeError."""
    with translated(f"cannot read the size of {root}"):
        found = os.statvfs(root)
    sizes = [size for size in (size_limit, found.f_blocks * found.f_frsize) if size]
    return min(sizes, default=None)


def room_in(paths: VolumePath, size_limit: int | None, *, with_trash: bool = False, with_incoming: bool = False) -> int:
    """Return the room of a volume, which is below 0 above its limit; raise VolumeError.

    With `with_trash`, what is being deleted counts as free. The limit never counts it. With `with_incoming`, what
    scripts write counts as free.
    """
    with translated(f"cannot read the free space of {paths.root}"):
        found = os.statvfs(paths.root)
    incoming = used_bytes([paths.incoming]) if with_incoming else 0
    free = found.f_bavail * found.f_frsize + (used_bytes([paths.trash]) if with_trash else 0) + incoming
    if size_limit is None or found.f_blocks * found.f_frsize <= size_limit:  # the file system is the limit
        return free
    used = used_bytes([paths.held, paths.partial, paths.incoming, paths.kept, paths.pinned])
    return min(free, size_limit - used + incoming)


def used_bytes(paths: Iterable[Path]) -> int:
    """Return the bytes of the files below these directories, as far as they can be read."""
    used = 0
    with contextlib.suppress(ResourcesShortError):
        for found in itertools.islice(itertools.chain.from_iterable(map(stats_below, paths)), _MOST_ENTRIES):
            # A file that is linked twice below these directories counts half at each place.
            used += found.st_blocks * 512 // (1 if stat.S_ISDIR(found.st_mode) else max(1, found.st_nlink))
    return used

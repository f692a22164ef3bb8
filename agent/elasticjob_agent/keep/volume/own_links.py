"""The names that a keeper has given to files of parts: links for workers and for the disk, and what is being deleted.

No script can write a file by such a name. They count only where a part has no manifest, so they are read at the first
question.
"""

import os
from collections import Counter
from pathlib import Path

from elasticjob_agent.keep.volume.errors import ResourcesShortError, VolumeError, translated
from elasticjob_agent.keep.volume.paths import VolumePath

_MOST_ENTRIES = 1_000_000
"""So many entries are read: a stray process may fill a directory that is being deleted."""


class OwnLinks:
    """The own links of one volume, as they were when a keeper began."""

    def __init__(self, paths: VolumePath) -> None:
        self._directories = (paths.kept, paths.pinned, paths.trash)
        self._counts: Counter[int] | None = None

    def count(self, inode: int) -> int:
        """Return how many of the names of this file are own links; raise ResourcesShortError."""
        if self._counts is None:
            self._counts = self._read()
        return self._counts[inode]

    def _read(self) -> Counter[int]:
        found: Counter[int] = Counter()
        pending, left = list(self._directories), _MOST_ENTRIES
        while pending and left > 0:
            try:
                left -= _read_directory(pending.pop(), pending, found)
            except ResourcesShortError:
                raise
            except VolumeError:  # a script may have protected what is being deleted
                continue
        return found


def _read_directory(path: Path, pending: list[Path], found: Counter[int]) -> int:
    """Count the files of one directory, and add its directories to `pending`; return how many entries it has."""
    with translated(f"cannot read {path}"), os.scandir(path) as scan:
        entries = list(scan)
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                pending.append(Path(entry.path))
            else:
                found[entry.stat(follow_symlinks=False).st_ino] += 1
    return len(entries)

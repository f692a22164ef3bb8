"""The names that a keeper has given to files of parts: links for workers and for the disk, and what is being deleted.

No script can write a file by such a name. They count only where a part has no manifest, so they are read at the first
question.
"""

import itertools
import stat
from collections import Counter

from elasticjob_agent.keep.volume.entries import stats_below
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
        entries = itertools.chain.from_iterable(map(stats_below, self._directories))
        files = (each for each in itertools.islice(entries, _MOST_ENTRIES) if not stat.S_ISDIR(each.st_mode))
        return Counter(each.st_ino for each in files)

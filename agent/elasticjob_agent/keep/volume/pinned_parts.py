"""Parts that are being written to disk: hard links to their files, so that they stay when the part is dropped."""

import itertools
from collections.abc import Iterable
from pathlib import Path

from elasticjob_agent.keep.volume import linking, scanning
from elasticjob_agent.keep.volume.held_part import HeldPart
from elasticjob_agent.keep.volume.paths import VolumePath
from elasticjob_agent.keep.volume.trash import TrashDir


class PinnedParts:
    """The pinned parts of one volume. They use memory only when their part is dropped."""

    def __init__(self, paths: VolumePath, trash: TrashDir) -> None:
        self._paths = paths
        self._trash = trash
        self._numbers = itertools.count()

    def add(self, held: HeldPart) -> Path:
        """Return a new directory with the files of this part.

        Raises:
            PartChangedError: a file has changed after it was published, or the part was dropped.
            VolumeError: the directory cannot be made.
        """
        path = self._paths.pinned_part(held.part, next(self._numbers))
        return linking.link_parts(self._paths, self._trash, {held.part: held.manifest}, path)

    def remove(self, paths: Iterable[Path]) -> None:
        """Throw these directories away."""
        for path in paths:
            scanning.throw_away_quietly(self._trash, path)

    def clear(self) -> None:
        """Throw all links away: no writer of an earlier keeper is left; raise VolumeError."""
        scanning.throw_away_others(self._paths.pinned, self._trash, ())

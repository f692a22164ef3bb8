"""The memory that the rules allow one node: what was dropped is deleted at once where it would need more.

A thread of low priority deletes what was dropped. On a busy machine it may get no processor for seconds. Then the
thread that needs the memory deletes.
"""

from collections import defaultdict

from elasticjob_agent.keep.rules.retention import most_parts
from elasticjob_agent.keep.volume.volume import Volume
from elasticjob_api.kept_steps import KeptStep

_MOST_ENTRIES = 10_000
"""So many entries are deleted at once: those of the largest part."""


class MemoryLimit:
    """The limit of one volume, in parts as large as the largest own one."""

    def __init__(self, volume: Volume) -> None:
        self._volume = volume
        self.copies = 0
        """How many peers keep each part in the round."""

    def enforce(self, coming: int = 0) -> None:
        """Delete what was dropped, unless all that is here fits in the limit beside the `coming` bytes."""
        if self._volume.trash.is_empty():
            return
        if self._volume.used_bytes() + coming > most_parts(self.copies) * self._part_bytes():
            self._volume.trash.delete_some(_MOST_ENTRIES)

    def _part_bytes(self) -> int:
        """Return the bytes of the largest own part; parts of one step at one node count together."""
        sizes: defaultdict[KeptStep, int] = defaultdict(int)
        for part, manifest in self._volume.parts().items():
            if manifest.is_own:
                sizes[part.step] += manifest.size
        return max(sizes.values(), default=0)

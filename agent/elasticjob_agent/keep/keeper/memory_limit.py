"""The memory that the rules allow one node: dropped files are deleted at once where all would need more.

A thread of low priority deletes what was dropped. On a busy machine it may get no processor for seconds. Then the
thread that needs the memory deletes.
"""

from collections import defaultdict
from collections.abc import Collection

from elasticjob_agent.keep.rules.retention import most_parts
from elasticjob_agent.keep.volume.paths import KeptPart
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

    def has_room(self) -> bool:
        """Return whether one more part as large as the largest own one has room."""
        return not self.lack_of_room(())

    def lack_of_room(self, without: Collection[KeptPart], *, with_drafts: bool = False) -> str:
        """Return why one more part has no room when those given are dropped, and what helps; empty if it has room.

        With `with_drafts`, what the script writes at present is that part.
        """
        held = self._volume.parts()
        needed = max((manifest.size for manifest in held.values() if manifest.is_own), default=0)
        dropped = sum(held[part].size for part in without)
        room = self._volume.free_bytes(with_incoming=with_drafts) + dropped
        if room >= needed:
            return ""
        return (
            f"there is no room for one more step: it needs {_mebibytes(needed)} MiB, and {max(0, room) >> 20} MiB are "
            "free; raise keep.sizeLimit (--keep-size), or publish smaller steps"
        )

    def _part_bytes(self) -> int:
        """Return the bytes of the largest own part; parts of one step at one node count together."""
        sizes: defaultdict[KeptStep, int] = defaultdict(int)
        for part, manifest in self._volume.parts().items():
            if manifest.is_own:
                sizes[part.step] += manifest.size
        return max(sizes.values(), default=0)


def _mebibytes(size: int) -> int:
    """Return the size in MiB, rounded up."""
    return -(-size >> 20)

"""The highest number that was published here for each part of a lineage; kept in a file, for the next keeper.

Numbers must grow within a round. Else part 0 of a first step 100 could meet part 1 of a second one.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable

from elasticjob_agent.keep.volume.errors import PublishRefused, VolumeError, VolumeFullError
from elasticjob_agent.keep.volume.paths import KeptPart, VolumePath
from elasticjob_agent.keep.volume.script_errors import ScriptErrorKind
from elasticjob_agent.keep.volume.trash import TrashDir
from elasticjob_agent.keep.volume.trees import read_file, replace_file
from elasticjob_api.kept_steps import Lineage

_BYTES = 4 << 20


class PublishedSteps:
    """The highest published number for each index and count of parts, of one lineage."""

    def __init__(self, paths: VolumePath, lineage: Lineage, held: Iterable[KeptPart], trash: TrashDir) -> None:
        """Read the file; parts that are held count even if it was not written."""
        self._path = paths.published(lineage)
        self._trash = trash
        self._numbers = self._read()
        for part in held:
            self.note(part)

    def highest(self, part: KeptPart) -> int:
        """Return the highest number that was published for its index and count of parts; -1 if none was."""
        return self._numbers.get(_slot(part), -1)

    def check_new(self, part: KeptPart) -> None:
        """Raise PublishRefused unless its number is higher than all before."""
        highest = self.highest(part)
        if part.step.number == highest:
            raise PublishRefused(
                ScriptErrorKind.AGAIN,
                "it was published before in this round; let one worker publish it, such as LOCAL_RANK 0 of each node",
            )
        if part.step.number < highest:
            raise PublishRefused(
                ScriptErrorKind.LOWER,
                f"step {highest} was published before it in this round, and numbers must grow; "
                "count the steps of the whole training, not those of an epoch",
            )

    def note(self, part: KeptPart) -> None:
        """Remember a part that was taken, or skipped."""
        slot = _slot(part)
        self._numbers[slot] = max(self._numbers.get(slot, -1), part.step.number)

    def write(self, report: Callable[[str], None]) -> None:
        """Write the file if there is room; report why it cannot be written. Held parts count without it, too."""
        try:
            replace_file(self._path, json.dumps(self._numbers).encode(), self._trash)
        except VolumeFullError:
            return
        except VolumeError as error:
            report(f"the numbers of published steps are not remembered: {error}")

    def indices(self) -> dict[int, frozenset[int]]:
        """Return the published indices, by the count of parts."""
        found: defaultdict[int, set[int]] = defaultdict(set)
        for slot in self._numbers:
            index, _, parts = slot.partition("-of-")
            if index.isdecimal() and parts.isdecimal():  # the file may have any names
                found[int(parts)].add(int(index))
        return {parts: frozenset(indices) for parts, indices in found.items()}

    def _read(self) -> dict[str, int]:
        try:
            value = json.loads(read_file(self._path, _BYTES) or b"")
        except (ValueError, RecursionError):
            return {}
        items = value.items() if isinstance(value, dict) else ()
        return {slot: number for slot, number in items if type(number) is int}


def _slot(part: KeptPart) -> str:
    return f"{part.index}-of-{part.step.parts}"

"""Conflicts between parts of one step, after which no node can restore it. No I/O.

The parts of a step come from different nodes. So this is found when a node first has two of them.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

from elasticjob_agent.keep.volume.manifest import Manifest, ManifestFile
from elasticjob_agent.keep.volume.paths import KeptPart
from elasticjob_api.kept_steps import KeptStep


class Conflicts:
    """The conflicts that were found in one volume."""

    def __init__(self) -> None:
        self._found: dict[KeptStep, str] = {}
        """One sentence for each step. It is replaced, never changed: threads read it."""

    def note(self, part: KeptPart, held: Mapping[KeptPart, Manifest]) -> Sequence[str]:
        """Return the conflicts of this held part with others, and remember one; none of a step that has one already."""
        found = [] if part.step in self._found else list(conflicts(part, held))
        if found:
            steps = {each.step for each in held}
            kept = {step: sentence for step, sentence in self._found.items() if step in steps}
            self._found = kept | {part.step: found[0]}
        return found

    def trouble(self, held: Collection[KeptStep]) -> str:
        """Return why the newest of these steps that has a conflict cannot be restored; empty if none has one."""
        found = self._found
        newest = max(found.keys() & set(held), default=None)
        return "" if newest is None else found[newest]


def conflicts(part: KeptPart, held: Mapping[KeptPart, Manifest]) -> Iterator[str]:
    """Yield a sentence for each conflict of this held part with another one."""
    files = {file.name: file for file in held[part].files}
    for other, manifest in held.items():
        if other == part or (other.step.lineage, other.step.number) != (part.step.lineage, part.step.number):
            continue
        if other.step.parts != part.step.parts:
            yield (
                f"step {part.step.number} was published in {part.step.parts} and in {other.step.parts} parts; "
                "all parts of one number must have the same count, or none of them becomes whole"
            )
        elif name := next((file.name for file in manifest.files if _differ(files.get(file.name), file)), None):
            yield (
                f"parts {part.index} and {other.index} of step {part.step.number} have different files {name!r:.120}, "
                "so the step cannot be restored; put the rank or the index of the part into the name of the file"
            )


def _differ(one: ManifestFile | None, other: ManifestFile) -> bool:
    """Return whether two files of one name are known to be different."""
    if one is None:
        return False
    return one.size != other.size or (None not in {one.crc, other.crc} and one.crc != other.crc)

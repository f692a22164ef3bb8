"""Conflicts between parts of one step, after which no node can restore it. No I/O.

The parts of a step come from different nodes. So this is found when a node first has two of them.
"""

from collections.abc import Iterator, Mapping

from elasticjob_agent.keep.volume.manifest import Manifest, ManifestFile
from elasticjob_agent.keep.volume.paths import KeptPart


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
                f"parts {part.index} and {other.index} of step {part.step.number} have different files {name!r:.120}; "
                "the step cannot be restored"
            )


def _differ(one: ManifestFile | None, other: ManifestFile) -> bool:
    """Return whether two files of one name are known to be different."""
    if one is None:
        return False
    return one.size != other.size or (None not in {one.crc, other.crc} and one.crc != other.crc)

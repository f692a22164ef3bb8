"""Conflicts between parts of one step, which is then dropped: no node could restore it. No I/O.

The parts of a step come from different nodes. So this is found when a node first has two of them, or is offered another
copy of one that it has. Equal sizes are compared by checksum, which is known once a part was copied.
"""

import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

from elasticjob_agent.keep.volume.manifest import Manifest, ManifestFile
from elasticjob_agent.keep.volume.paths import KeptPart
from elasticjob_api.kept_steps import KeptStep, Lineage

_MOST_STEPS = 64
"""So many of the newest steps with a conflict are remembered."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """One fault of some steps of one number."""

    steps: tuple[KeptStep, ...]
    kind: str
    sentence: str


class Conflicts:
    """The conflicts that were found in one volume."""

    def __init__(self, report: Callable[[str], None] = lambda _: None) -> None:
        """`report` gets one sentence for each kind of conflict of a round."""
        self._report = report
        self._found: dict[KeptStep, str] = {}
        """One sentence for each step. It is replaced, never changed: threads read it."""
        self._twice: Conflict | None = None
        """The newest part that two nodes have published. The next step is of the same kind, noticed or not."""
        self._reported: set[tuple[Lineage, str]] = set()
        self._lock = threading.Lock()

    @property
    def steps(self) -> Collection[KeptStep]:
        """The steps with a conflict. No part of them is kept."""
        return self._found.keys()

    def note(self, parts: Collection[KeptPart], held: Mapping[KeptPart, Manifest]) -> None:
        """Remember the conflicts of these held parts, of one step, with others."""
        if next(iter(parts)).step not in self._found:
            for found in conflicts(parts, held):
                self._remember(found)

    def note_found(self, held: Mapping[KeptPart, Manifest]) -> None:
        """Remember the conflicts of all held parts: the keeper before may have ended before it dropped their steps."""
        for step in {part.step for part in held}:
            self.note([part for part in held if part.step == step], held)

    def note_different(self, part: KeptPart, earlier: KeptPart, name: str) -> None:
        """Remember that these two parts of one step have different files of this name."""
        self._remember(_different_files(part, earlier, name))

    def note_offer(self, part: KeptPart, files: Collection[tuple[str, int]], held: Mapping[KeptPart, Manifest]) -> None:
        """Remember the conflict of a held part with the names and sizes of the same part of another node."""
        mine = held.get(part)
        # Full copies of a step are taken for equal: that is the claim of the script.
        if mine is None or part.step.parts == 1 or {(each.name, each.size) for each in mine.files} == set(files):
            return
        found = Conflict(
            (part.step,),
            "twice",
            f"part {part.index} of step {part.step.number} was published by two nodes with different files, "
            "so it is not kept; count the parts by RANK and WORLD_SIZE",
        )
        self._twice = found
        self._remember(found)

    def trouble(self, committed: KeptStep | None) -> str:
        """Return what is wrong with the newest step that has a conflict; empty once a newer step is committed.

        A step whose parts two nodes publish may be committed before they are compared. So that stays until a later
        round has a committed step.
        """
        found, twice = self._found, self._twice
        if twice is not None and (committed is None or committed.lineage <= twice.steps[0].lineage):
            return twice.sentence
        newest = max(found, default=None)
        return "" if newest is None or (committed is not None and committed > newest) else found[newest]

    def _remember(self, conflict: Conflict) -> None:
        kind = conflict.steps[0].lineage, conflict.kind
        with self._lock:
            known = self._found | dict.fromkeys(conflict.steps, conflict.sentence)
            self._found = {step: known[step] for step in sorted(known)[-_MOST_STEPS:]}
            is_new = kind not in self._reported
            self._reported = {each for each in self._reported if each[0] == kind[0]} | {kind}
        if is_new:
            self._report(conflict.sentence)


def conflicts(parts: Collection[KeptPart], held: Mapping[KeptPart, Manifest]) -> Iterator[Conflict]:
    """Yield a conflict of each kind that these held parts, of one step, have with other ones."""
    step = next(iter(parts)).step
    same = [each for each in held if (each.step.lineage, each.step.number) == (step.lineage, step.number)]
    if others := sorted({each.step for each in same if each.step != step}):
        yield Conflict(
            (step, *others),
            "counts",
            f"step {step.number} was published in {step.parts} and in {others[0].parts} parts, "
            "so it is not kept; give all parts of one number the same count",
        )
    if clash := _find_clash(set(parts), {each: held[each] for each in same if each.step == step}):
        yield _different_files(*clash)


def _different_files(part: KeptPart, earlier: KeptPart, name: str) -> Conflict:
    return Conflict(
        (part.step,),
        "files",
        f"parts {part.index} and {earlier.index} of step {part.step.number} have different files {name!r:.120}, "
        "so it is not kept; put the rank into the name of the file",
    )


def _find_clash(
    parts: Collection[KeptPart], held: Mapping[KeptPart, Manifest]
) -> tuple[KeptPart, KeptPart, str] | None:
    """Return a part of these, another one of their step, and the name of a file that is known to differ."""
    seen: dict[str, dict[tuple[int, int | None], KeptPart]] = {}
    for part in sorted(held, key=lambda each: (each in parts, each)):  # the others first
        for file in held[part].files:
            found = seen.setdefault(file.name, {})
            for (size, crc), earlier in found.items():
                if part in parts and earlier != part and _differ(size, crc, file):
                    return part, earlier, file.name
            found.setdefault((file.size, file.crc), part)
    return None


def _differ(size: int, crc: int | None, file: ManifestFile) -> bool:
    """Return whether two files of one name are known to be different."""
    return size != file.size or (None not in {crc, file.crc} and crc != file.crc)

"""Taking the published parts of one step together, so that the cost of each does not grow with their number.

A part that breaks a rule is refused, deleted and reported; the others are taken. Those of a skipped step go unread.
"""

import os
from collections.abc import Callable, Collection, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path

from elasticjob_agent.keep.volume import scanning, taking
from elasticjob_agent.keep.volume.collisions import Conflicts
from elasticjob_agent.keep.volume.errors import PublishRefused, ResourcesShortError, VolumeError
from elasticjob_agent.keep.volume.manifest import Manifest, write_manifest
from elasticjob_agent.keep.volume.part_limits import PartLimits
from elasticjob_agent.keep.volume.paths import KeptPart, VolumePath
from elasticjob_agent.keep.volume.published import PublishedSteps
from elasticjob_agent.keep.volume.script_errors import ScriptErrors
from elasticjob_agent.keep.volume.shared_names import note_conflicts
from elasticjob_agent.keep.volume.trash import TrashDir
from elasticjob_agent.keep.volume.trees import list_files
from elasticjob_api.kept_steps import KeptStep


@dataclass(slots=True)
class PublishedBatch:
    """The published parts of one step that are taken together. The volume is locked meanwhile."""

    step: KeptStep
    paths: VolumePath
    trash: TrashDir
    limits: PartLimits
    held: MutableMapping[KeptPart, Manifest]
    published: PublishedSteps
    conflicts: Conflicts
    script_errors: ScriptErrors
    report: Callable[[str], None]
    _bytes: int = field(init=False)
    """The bytes of the step that are held."""

    def __post_init__(self) -> None:
        """Count what is held of the step."""
        self._bytes = sum(manifest.size for part, manifest in self.held.items() if part.step == self.step)

    def take(self, source: Path, part: KeptPart) -> bool:
        """Take what was published as `source`; return whether it is held now. A refused one is deleted.

        Raises:
            ResourcesShortError: this process lacks descriptors or memory.
        """
        try:
            self.published.check_new(part)
            self._take(source, part)
        except ResourcesShortError:  # nothing is known of the part, and the next keeper takes or finds it
            raise
        except VolumeError as error:
            if os.path.lexists(source) or not isinstance(error.__cause__, FileNotFoundError):
                self._report_refused(source.name, error)
            scanning.throw_away_quietly(self.trash, source)
            return False
        self.published.note(part)
        self.script_errors.note_taken(self.step)
        return True

    def end(self, taken: Collection[KeptPart]) -> None:
        """Remember what was published, and the conflicts of these parts, which were taken.

        Raises:
            VolumeError: a file whose name another part has cannot be read.
        """
        self.published.write(self.report)
        note_conflicts(self.conflicts, self.paths, taken, self.held)

    def skip(self, source: Path, part: KeptPart) -> None:
        """Throw away what was published as `source`: its step is committed, or too old; report a number that fell."""
        try:
            self.published.check_new(part)
        except PublishRefused as error:
            self._report_refused(source.name, error)
        self.published.note(part)
        scanning.throw_away_quietly(self.trash, source)

    def _report_refused(self, name: str, error: VolumeError) -> None:
        sentence = f"{name} is refused: {error}"
        if isinstance(error, PublishRefused):
            self.script_errors.note(self.step.lineage, error.kind, sentence)
        else:
            self.report(sentence)

    def _take(self, source: Path, part: KeptPart) -> None:
        if part in self.held:  # a peer has sent it before
            files = {(file.name, file.size) for file in list_files(source)}
            self.conflicts.note_offer(part, files, self.held)
            self.trash.throw_away(source)
            self.held[part] = self.held[part].as_own()
            write_manifest(self.paths.manifest(part), self.held[part], self.trash)
            return
        taking.move_published(self.paths, source, part)
        try:
            self.held[part] = taking.inspect_part(self.paths, self.trash, part, self.limits, self._bytes)
        except ResourcesShortError:
            raise
        except VolumeError:
            scanning.throw_away_quietly(self.trash, self.paths.part(part))
            raise
        self._bytes += self.held[part].size

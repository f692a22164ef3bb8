"""Where each thing of a volume is, and which names are ours; no I/O.

    volume.json                              the job and the run that the rest belongs to
    in/<lineage>/                            the script publishes here; one directory for each round
    held/<lineage>/<number>/<i>-of-<m>/      a part that this node has whole
    held/<lineage>/<number>/<i>-of-<m>.json  its manifest, written after it
    held/<lineage>/published.json            the highest numbers that were published here
    part/<step>.<index>/                     a part that is being received
    kept/<step>/                             hard links to the files of all parts, for the workers
    persist/<step>.<index>.<write>/          hard links to the files of a part that is being written to disk
    trash/                                   what is being deleted

Each name that is read is checked by the type that it becomes.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from elasticjob_api.errors import RecordError
from elasticjob_api.kept_steps import Holdings, KeptStep, Lineage


@dataclass(frozen=True, slots=True, order=True)
class KeptPart:
    """One part of a step, by its index."""

    step: KeptStep
    index: int

    def __post_init__(self) -> None:
        """Raise RecordError if the step has no such part."""
        if not 0 <= self.index < self.step.parts:
            raise RecordError(f"step {self.step} has no part {self.index!r:.40}")

    def __str__(self) -> str:
        """Return `<round>.<nonce>.<number>.<parts>.<index>`."""
        return f"{self.step}.{self.index}"

    @classmethod
    def parse(cls, text: str) -> "KeptPart":
        """Return the part that `str` wrote; raise RecordError for other text."""
        step, _, index = text.rpartition(".")
        return cls(KeptStep.parse(step), _parse_index(index))


@dataclass(frozen=True, slots=True)
class VolumePath:
    """The paths below the directory of one volume."""

    root: Path

    NAMES = ("volume.json", "in", "held", "part", "kept", "persist", "trash")
    """The names below the root; a keeper touches nothing else there."""

    @property
    def record(self) -> Path:
        """Return the file with job and run."""
        return self.root / "volume.json"

    @property
    def incoming(self) -> Path:
        """Return the directory of what scripts publish."""
        return self.root / "in"

    @property
    def held(self) -> Path:
        """Return the directory of whole parts."""
        return self.root / "held"

    @property
    def partial(self) -> Path:
        """Return the directory of receipts."""
        return self.root / "part"

    @property
    def kept(self) -> Path:
        """Return the directory of what workers restore."""
        return self.root / "kept"

    @property
    def pinned(self) -> Path:
        """Return the directory of parts that are being written to disk."""
        return self.root / "persist"

    @property
    def trash(self) -> Path:
        """Return the directory of things that are to be deleted."""
        return self.root / "trash"

    def incoming_of(self, lineage: Lineage) -> Path:
        """Return where the script of this round publishes."""
        return self.incoming / str(lineage)

    def published(self, lineage: Lineage) -> Path:
        """Return the file with the highest numbers of a lineage."""
        return self.held / str(lineage) / "published.json"

    def part(self, part: KeptPart) -> Path:
        """Return the directory of a held part."""
        step = part.step
        return self.held / str(step.lineage) / str(step.number) / f"{part.index}-of-{step.parts}"

    def manifest(self, part: KeptPart) -> Path:
        """Return the manifest of a held part."""
        return self.part(part).with_suffix(".json")

    def receipt(self, part: KeptPart) -> Path:
        """Return where this part is received."""
        return self.partial / str(part)

    def pinned_part(self, part: KeptPart, number: int) -> Path:
        """Return where the files of this part are while it is written to disk; each write has another number."""
        return self.pinned / f"{part}.{number}"

    def kept_step(self, step: KeptStep) -> Path:
        """Return the directory in which workers find this step."""
        return self.kept / str(step)


def parse_held(lineage: str, number: str, name: str) -> KeptPart:
    """Return the part with these three names below `held`; raise RecordError if they are not a part's."""
    index, separator, parts = name.partition("-of-")
    if not separator:
        raise RecordError(f"{name!r:.80} is not <index>-of-<parts>")
    return KeptPart(KeptStep.parse(f"{lineage}.{number}.{parts}"), _parse_index(index))


def _parse_index(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= len("65535") and text == str(int(text))):
        raise RecordError(f"index of a part {text!r:.40} is not a number without leading zeros")
    return int(text)


def parts_of(holdings: Holdings, steps: Iterable[KeptStep]) -> list[KeptPart]:
    """Return the held parts of these steps, step by step."""
    return [KeptPart(step, index) for step in steps for index in sorted(holdings.get(step, ()))]

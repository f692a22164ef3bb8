"""The bounds of a part as a whole, and why the last one was over a bound. No I/O.

A part is offered to peers with the list of its files in one message. A part whose list is longer gets no copy, and then
no later step of its round would be committed.

A sparse file needs little memory, but all of its bytes on disk and at peers. So what the files of a step seem to have
is compared with the size of the volume.
"""

import json
from collections.abc import Iterable

from elasticjob_agent.keep.volume.errors import PartTooLargeError
from elasticjob_agent.keep.volume.manifest import Manifest
from elasticjob_agent.keep.volume.paths import KeptPart

LIST_BYTES = (4 << 20) - (64 << 10)
"""The most bytes of the list in a message, whose other fields have less than the rest of 4 MiB."""


class PartLimits:
    """The bounds of the parts that scripts publish in one volume."""

    def __init__(self, volume_bytes: int | None) -> None:
        """`volume_bytes` is the size of the volume; None if it has no bound."""
        self._volume_bytes = volume_bytes
        self._refused: tuple[KeptPart, str] | None = None
        """It is replaced, never changed: threads read it."""

    @property
    def trouble(self) -> str:
        """Return why the last part was too large, with the cure; empty if one of its place was taken since."""
        refused = self._refused
        return "" if refused is None else refused[1]

    def check(self, part: KeptPart, manifest: Manifest, beside: int) -> None:
        """Raise PartTooLargeError for a part over a bound; `beside` are the bytes of its step that are held already."""
        if why := _excess_of_list(manifest) or self._excess_of_bytes(manifest.size + beside):
            self._refused = part, f"part {part.index} of step {part.step.number} is too large: {why}"
            raise PartTooLargeError(why)
        if self._refused is not None and _takes_place_of(part, self._refused[0]):
            self._refused = None

    def _excess_of_bytes(self, found: int) -> str:
        if self._volume_bytes is None or found <= self._volume_bytes:
            return ""
        return (
            f"the files of the step have {-(-found >> 20)} MiB here, holes included, and the volume has "
            f"{self._volume_bytes >> 20} MiB; raise keep.sizeLimit (--keep-size), or publish smaller steps"
        )


def list_bytes(files: Iterable[tuple[str, int]]) -> int:
    """Return the most bytes that the list of these names and sizes has in a message."""
    return sum(len(json.dumps(file)) + 1 for file in files)


def _excess_of_list(manifest: Manifest) -> str:
    found = list_bytes((file.name, file.size) for file in manifest.files)
    if found > LIST_BYTES:
        return f"the list of its files has {found} bytes; {LIST_BYTES} are the most; write fewer files or shorter names"
    return ""


def _takes_place_of(part: KeptPart, refused: KeptPart) -> bool:
    """Whether a part shows that the refused one troubles no more: one with its index, or of another set of parts."""
    kinds = [(each.step.lineage, each.step.parts) for each in (part, refused)]
    return kinds[0] != kinds[1] or part.index == refused.index

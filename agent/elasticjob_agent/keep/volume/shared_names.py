"""Files of one name and size in two parts of a node, whose checksums are not known: a few pieces are compared.

Where no part is copied, as in a job of one node, a file gets no checksum. Then such files would first be compared when
their step is restored. Where parts are copied, the step could be committed before the own files have checksums. To read
them as a whole could take the keeper seconds.
"""

import contextlib
import itertools
import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from elasticjob_agent.keep.volume.collisions import Conflicts
from elasticjob_agent.keep.volume.errors import PartChangedError, translated
from elasticjob_agent.keep.volume.manifest import Manifest, ManifestFile
from elasticjob_agent.keep.volume.paths import KeptPart, VolumePath
from elasticjob_agent.keep.volume.trees import open_file

_PIECE_BYTES = 1 << 16
_MOST_NAMES = 64
"""So many names are compared each time. A script that makes this error makes it with the first ones, too."""


def note_conflicts(
    found: Conflicts, paths: VolumePath, parts: Collection[KeptPart], held: Mapping[KeptPart, Manifest]
) -> None:
    """Remember in `found` the conflicts of these held parts, of one step, with others.

    Raises:
        VolumeError: a file whose name another part has cannot be read.
    """
    found.note(parts, held)
    step = next(iter(parts)).step
    if step not in found.steps and (different := _find_different(paths, parts, held)):
        found.note_different(*different)


def _find_different(
    paths: VolumePath, parts: Collection[KeptPart], held: Mapping[KeptPart, Manifest]
) -> tuple[KeptPart, KeptPart, str] | None:
    """Return one of these parts, another held one of their step, and the name of a file in which pieces differ.

    Raises:
        ResourcesShortError: this process lacks descriptors or memory.
        VolumeError: a file cannot be read.
    """
    for part, earlier, file in itertools.islice(_uncompared(parts, held), _MOST_NAMES):
        with contextlib.suppress(PartChangedError):  # that is found when the part is linked or copied
            if _pieces(paths.part(part), file) != _pieces(paths.part(earlier), file):
                return part, earlier, file.name
    return None


def _uncompared(
    parts: Collection[KeptPart], held: Mapping[KeptPart, Manifest]
) -> Iterator[tuple[KeptPart, KeptPart, ManifestFile]]:
    step = next(iter(parts)).step
    same = [each for each in held if each.step == step]
    seen: dict[str, tuple[KeptPart, ManifestFile]] = {}
    for part in sorted(same, key=lambda each: (each in parts, each)):  # the others first
        for file in held[part].files:
            earlier, known = seen.setdefault(file.name, (part, file))
            if earlier != part and part in parts and known.size == file.size and None in {known.crc, file.crc}:
                yield part, earlier, file


def _pieces(path: Path, file: ManifestFile) -> list[bytes]:
    """Return the beginning, the middle and the end of a file."""
    offsets = (0, file.size // 2, max(0, file.size - _PIECE_BYTES))
    with translated(f"cannot read {file.name!r:.120} in {path}"), os.fdopen(open_file(path, file.name), "rb") as opened:
        return [os.pread(opened.fileno(), _PIECE_BYTES, offset) for offset in offsets]

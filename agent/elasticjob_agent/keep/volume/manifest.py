"""The manifest of a held part: its files as they were when it came, and their checksums once they are known.

It is written after the part's directory. A directory without one is whole: it came by a rename. Nothing in a manifest
is trusted: a script that runs as the same user can write it.
"""

import contextlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from elasticjob_agent.keep.volume.errors import VolumeError, VolumeFullError
from elasticjob_agent.keep.volume.file_names import check_files
from elasticjob_agent.keep.volume.trash import TrashDir
from elasticjob_agent.keep.volume.trees import FoundFile, read_file, replace_file

_VERSION = 1
_BYTES = 64 << 20
"""The most that is read. 10,000 names of the greatest length have less."""


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """One file of a part."""

    name: str
    size: int
    mtime_ns: int
    crc: int | None = None
    """CRC-32 of the contents, or None as long as it is not known."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """The files of one part, sorted by name."""

    files: tuple[ManifestFile, ...]
    is_own: bool
    """Whether a script of this node published the part; else a peer sent it."""

    @classmethod
    def of(cls, files: Iterable[FoundFile], *, is_own: bool) -> "Manifest":
        """Return the manifest of files as they are now, without checksums."""
        return cls(tuple(ManifestFile(file.name, file.size, file.mtime_ns) for file in files), is_own)

    @property
    def size(self) -> int:
        """The bytes of all files."""
        return sum(file.size for file in self.files)

    @property
    def crcs(self) -> tuple[int, ...] | None:
        """The checksums of all files, or None if one is not known."""
        known = tuple(file.crc for file in self.files if file.crc is not None)
        return known if len(known) == len(self.files) else None

    def with_crcs(self, crcs: Sequence[int | None]) -> "Manifest":
        """Return the same files with these checksums."""
        return replace(self, files=tuple(replace(file, crc=crc) for file, crc in zip(self.files, crcs, strict=True)))

    def as_own(self) -> "Manifest":
        """Return the same files as a part that a script of this node published."""
        return replace(self, is_own=True)

    def is_of(self, files: Iterable[FoundFile]) -> bool:
        """Return whether these files have the names, sizes and times of this manifest."""
        expected = [(file.name, file.size, file.mtime_ns) for file in self.files]
        return expected == [(file.name, file.size, file.mtime_ns) for file in files]


def write_manifest(path: Path, manifest: Manifest, trash: TrashDir) -> None:
    """Write it in one step, if there is room: a part without a manifest is whole, too. Raise VolumeError."""
    with contextlib.suppress(VolumeFullError):
        replace_file(path, encode_manifest(manifest), trash)


def read_manifest(path: Path) -> Manifest | None:
    """Return the manifest, or None if there is none that can be read."""
    data = read_file(path, _BYTES)
    return None if data is None else decode_manifest(data)


def encode_manifest(manifest: Manifest) -> bytes:
    """Return the JSON of a manifest."""
    record = {
        "v": _VERSION,
        "own": manifest.is_own,
        "files": [[file.name, file.size, file.mtime_ns, file.crc] for file in manifest.files],
    }
    return json.dumps(record).encode()


def decode_manifest(data: bytes) -> Manifest | None:
    """Return the manifest that `encode_manifest` wrote, or None for anything else."""
    try:
        return _decode(json.loads(data))
    except (ValueError, RecursionError, VolumeError):
        return None


def _decode(value: Any) -> Manifest | None:
    if not (isinstance(value, dict) and value.get("v") == _VERSION and isinstance(value.get("own"), bool)):
        return None
    rows = value.get("files")
    if not (isinstance(rows, list) and all(_is_row(row) for row in rows)):
        return None
    check_files([(name, size) for name, size, _, _ in rows])
    return Manifest(tuple(ManifestFile(*row) for row in rows), value["own"])


def _is_row(row: Any) -> bool:
    return (
        isinstance(row, list)
        and [type(field) for field in row[:3]] == [str, int, int]
        and len(row) == len(("name", "size", "mtime", "crc"))
        and (row[3] is None or type(row[3]) is int)
    )

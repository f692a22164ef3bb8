"""The directory in which workers find a step: one hard link for each file of its parts.

It is made under another name and renamed when it is complete. Two parts may share a file if their contents are equal.
"""

import contextlib
import os
import stat
from collections.abc import Mapping
from pathlib import Path

from elasticjob_agent.keep.volume.errors import PartChangedError, PartsCollideError, translated
from elasticjob_agent.keep.volume.file_names import directories_of
from elasticjob_agent.keep.volume.manifest import Manifest, ManifestFile
from elasticjob_agent.keep.volume.paths import KeptPart, VolumePath
from elasticjob_agent.keep.volume.receipt import crc_of
from elasticjob_agent.keep.volume.trash import TrashDir
from elasticjob_agent.keep.volume.trees import open_file, open_parent

Source = tuple[KeptPart, ManifestFile]


def link_parts(paths: VolumePath, trash: TrashDir, parts: Mapping[KeptPart, Manifest], path: Path) -> Path:
    """Make `path` a directory with the files of these parts, which are of one step; return it.

    Raises:
        PartsCollideError: two parts have different files of one name.
        PartChangedError: a file is not as its manifest describes it.
        VolumeError: the directory cannot be made.
    """
    sources = merge(paths, parts)
    temporary = path.with_name(f".{path.name}.tmp")
    trash.throw_away(temporary)
    with translated(f"cannot link the parts in {path}"):
        temporary.mkdir()
        for directory in sorted(directories_of(sources)):
            (temporary / directory).mkdir()
        for name, (part, file) in sources.items():
            _link(paths.part(part), file, temporary / name)
        trash.throw_away(path)
        temporary.rename(path)
    return path


def merge(paths: VolumePath, parts: Mapping[KeptPart, Manifest]) -> dict[str, Source]:
    """Return where each file of the step comes from; raise PartsCollideError or PartChangedError.

    A checksum is computed only for a name that two parts have.
    """
    sources: dict[str, Source] = {}
    for part, manifest in parts.items():
        for file in manifest.files:
            first = sources.setdefault(file.name, (part, file))
            if first[0] != part and not _are_equal(paths, first, (part, file)):
                raise PartsCollideError(
                    f"parts {first[0].index} and {part.index} of step {part.step.number} have different files "
                    f"{file.name!r:.120}"
                )
    if both := directories_of(sources).intersection(sources):
        raise PartsCollideError(f"{min(both)!r:.120} is a file in one part and a directory in another")
    return sources


def _are_equal(paths: VolumePath, one: Source, other: Source) -> bool:
    if one[1].size != other[1].size:
        return False
    crcs = {_crc(paths, source) for source in (one, other)}
    return len(crcs) == 1


def _crc(paths: VolumePath, source: Source) -> int:
    part, file = source
    if file.crc is not None:
        return file.crc
    with translated(f"cannot read {file.name!r:.120} of {part}"):
        return crc_of(open_file(paths.part(part), file.name))


def _link(part: Path, file: ManifestFile, target: Path) -> None:
    """Link one file. The link is checked, not the file: a script could exchange the file in between."""
    with open_parent(part, file.name) as (parent, name):
        try:
            os.link(name, target, src_dir_fd=parent, follow_symlinks=False)
        except FileNotFoundError as error:
            raise PartChangedError(f"{file.name!r:.120} in {part} is gone") from error
    found = target.lstat()
    if not stat.S_ISREG(found.st_mode) or (found.st_size, found.st_mtime_ns) != (file.size, file.mtime_ns):
        with contextlib.suppress(OSError):
            target.unlink()
        raise PartChangedError(f"{file.name!r:.120} in {part} has changed after the part was published")

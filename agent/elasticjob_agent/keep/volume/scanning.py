"""The scan of a volume: what the directories prove, after any end of an earlier keeper.

    directory, no manifest          whole: it came by a rename; it is checked, and its manifest is written
    directory, manifest             whole if the files are those of the manifest; else it is thrown away
    manifest, no directory          a deletion was cut short: the manifest is deleted
    anything else                   thrown away

A part that is thrown away is reported. None is thrown away because this process lacks descriptors or memory.
"""

import contextlib
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from elasticjob_agent.keep.volume.errors import PartChangedError, ResourcesShortError, VolumeError, translated
from elasticjob_agent.keep.volume.manifest import Manifest, read_manifest
from elasticjob_agent.keep.volume.own_links import OwnLinks
from elasticjob_agent.keep.volume.part_limits import PartLimits
from elasticjob_agent.keep.volume.paths import KeptPart, VolumePath, parse_held
from elasticjob_agent.keep.volume.taking import inspect_part
from elasticjob_agent.keep.volume.trash import TrashDir
from elasticjob_agent.keep.volume.trees import list_files
from elasticjob_api.errors import RecordError
from elasticjob_api.kept_steps import KeptStep, Lineage

Report = Callable[[str], None]
"""Called with a sentence about a part that is not held any more."""


def scan_held(paths: VolumePath, trash: TrashDir, limits: PartLimits, report: Report) -> dict[KeptPart, Manifest]:
    """Return each whole part with its manifest, and throw away what is none.

    Raises:
        ResourcesShortError: this process lacks descriptors or memory.
        VolumeError: `held` cannot be read.
    """
    own_links = OwnLinks(paths)
    found: dict[KeptPart, Manifest] = {}
    sizes: defaultdict[KeptStep, int] = defaultdict(int)
    for directory in _part_directories(paths, trash):
        part = _parse(paths, directory)
        try:
            if part is None:
                raise PartChangedError("it is not named as a part")
            found[part] = check_part(paths, trash, part, limits, sizes[part.step], own_links=own_links)
            sizes[part.step] += found[part].size
        except ResourcesShortError:
            raise
        except VolumeError as error:
            report(f"{str(directory)!r:.300} is deleted: {error}")
            throw_away_quietly(trash, directory)
    _delete_orphans(paths, found)
    return found


def check_part(
    paths: VolumePath, trash: TrashDir, part: KeptPart, limits: PartLimits, beside: int, *, own_links: OwnLinks
) -> Manifest:
    """Return the manifest of a held part; write it if there is none. `beside` are the bytes of the step found before.

    Raises:
        PartChangedError: the files are not those of the manifest.
        VolumeError: the part breaks a rule or cannot be read.
    """
    manifest = read_manifest(paths.manifest(part))
    if manifest is None:
        return inspect_part(paths, trash, part, limits, beside, own_links=own_links.count)
    if not manifest.is_of(list_files(paths.part(part))):
        raise PartChangedError("a file has changed after the part was published")
    limits.check(part, manifest, beside)
    return manifest


def scan_receipts(paths: VolumePath, trash: TrashDir, held: Collection[KeptPart]) -> set[KeptPart]:
    """Return the parts of which something has arrived; throw away the rest of `part`."""
    found = set()
    for path in _children(paths.partial):
        with contextlib.suppress(RecordError):
            part = KeptPart.parse(path.name)
            if part not in held and path.is_dir() and not path.is_symlink():
                found.add(part)
                continue
        throw_away_quietly(trash, path)
    return found


def remove_empty_lineages(paths: VolumePath, trash: TrashDir, used: Collection[Lineage]) -> None:
    """Throw away what is left of lineages of which no part is held any more."""
    names = {str(lineage) for lineage in used}
    for path in _children(paths.held):
        if path.name not in names:
            throw_away_quietly(trash, path)


def throw_away_others(directory: Path, trash: TrashDir, names: Collection[str]) -> None:
    """Throw away what is in this directory under other names; raise VolumeError."""
    with translated(f"cannot read {directory}"):
        for path in list(directory.iterdir()):
            if path.name not in names:
                trash.throw_away(path)


def throw_away_quietly(trash: TrashDir, path: Path) -> None:
    """Throw it away; what cannot be moved stays where it is."""
    with contextlib.suppress(VolumeError):
        trash.throw_away(path)


def _part_directories(paths: VolumePath, trash: TrashDir) -> Iterator[Path]:
    """Yield what could be a part: every directory at the third level below `held`."""
    for lineage in _children(paths.held):
        for number in _children(lineage):
            if number.is_dir() and not number.is_symlink():
                yield from (child for child in _children(number) if child.suffix not in {".json", ".tmp"})
            elif number.name != "published.json":
                throw_away_quietly(trash, number)


def _children(path: Path) -> list[Path]:
    """Return the entries of a directory, sorted; none if it is no real directory."""
    with translated(f"cannot read {str(path)!r:.300}"):
        return [] if path.is_symlink() or not path.is_dir() else sorted(path.iterdir())


def _parse(paths: VolumePath, directory: Path) -> KeptPart | None:
    lineage, number, name = directory.relative_to(paths.held).parts
    try:
        return parse_held(lineage, number, name)
    except RecordError:
        return None


def _delete_orphans(paths: VolumePath, found: dict[KeptPart, Manifest]) -> None:
    """Delete manifests without a part, files that were being written, and directories that are empty now."""
    manifests = {paths.manifest(part) for part in found}
    for lineage in _children(paths.held):
        for number in _children(lineage):
            for file in _children(number):
                if file not in manifests and file.suffix in {".json", ".tmp"}:
                    with contextlib.suppress(OSError):
                        file.unlink()
            with contextlib.suppress(OSError):
                number.rmdir()
        with contextlib.suppress(OSError):
            lineage.rmdir()

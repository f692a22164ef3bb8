"""Taking a part that a script has published, by moving it away.

The move is one rename. After it the script deletes no part, and the keeper deletes no file that is the script's. The
contents are checked after the move, because the script could change them before.
"""

import os
import stat
from collections.abc import Callable
from pathlib import Path

from elasticjob_agent.keep.volume.errors import PartRefused, PublishRefused, translated
from elasticjob_agent.keep.volume.manifest import Manifest, write_manifest
from elasticjob_agent.keep.volume.part_limits import PartLimits
from elasticjob_agent.keep.volume.paths import KeptPart, VolumePath
from elasticjob_agent.keep.volume.script_errors import ScriptErrorKind
from elasticjob_agent.keep.volume.trash import TrashDir
from elasticjob_agent.keep.volume.trees import list_files


def move_published(paths: VolumePath, source: Path, part: KeptPart) -> None:
    """Rename what was published as `source` to the place of a held part.

    Raises:
        PublishRefused: it is not a directory.
        PartRefused: the part is there already.
        VolumeError: it cannot be moved.
    """
    target = paths.part(part)
    with translated(f"cannot take {source}"):
        if not stat.S_ISDIR(source.lstat().st_mode):
            raise PublishRefused(ScriptErrorKind.FILE, "it is not a directory; rename a directory to this name")
        if os.path.lexists(target):  # a rename would replace an empty directory
            raise PartRefused(f"{target} exists already")
        target.parent.mkdir(parents=True, exist_ok=True)
        source.rename(target)


def inspect_part(
    paths: VolumePath,
    trash: TrashDir,
    part: KeptPart,
    limits: PartLimits,
    beside: int,
    *,
    own_links: Callable[[int], int] = lambda _: 0,
) -> Manifest:
    """Check a part of a script that has no manifest, write one and return it.

    `beside` are the bytes of its step that are held already. `own_links` returns how many names of an inode are links
    that a keeper has made.

    Raises:
        PartRefused: its contents break a rule.
        VolumeError: it cannot be read.
    """
    files = list_files(paths.part(part))
    if linked := next((file for file in files if file.links != 1 and file.links != 1 + own_links(file.inode)), None):
        raise PartRefused(f"{linked.name!r:.120} has {linked.links} names; a hard link may be changed from elsewhere")
    manifest = Manifest.of(files, is_own=True)
    limits.check(part, manifest, beside)
    write_manifest(paths.manifest(part), manifest, trash)
    return manifest

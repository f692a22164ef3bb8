"""The directories in which scripts publish: one for each round, so nothing of an earlier round can be in a part.

When the workers of a round are reaped, its directory goes with all that is left in it. A stray process then writes
into a directory without a name.
"""

import contextlib
from pathlib import Path

from elasticjob_agent.keep.volume.errors import translated
from elasticjob_agent.keep.volume.paths import VolumePath
from elasticjob_agent.keep.volume.trash import TrashDir
from elasticjob_api.errors import RecordError
from elasticjob_api.kept_steps import Lineage

STEP_PREFIX = "step-"
"""How a published name begins; other names are the script's own."""


def make_incoming(paths: VolumePath, trash: TrashDir, lineage: Lineage, mode: int) -> bool:
    """Create the directory of this round and throw away all others; return whether the round is new here.

    A round that is not new has workers, which may still read what was linked for them.

    Raises:
        VolumeError: it cannot be created.
    """
    path = paths.incoming_of(lineage)
    with translated(f"cannot create {path}"):
        for entry in list(paths.incoming.iterdir()):
            if entry != path or entry.is_symlink() or not entry.is_dir():
                trash.throw_away(entry)
        is_new = not path.exists()
        path.mkdir(exist_ok=True)
        path.chmod(mode)
        if is_new:
            for entry in list(paths.kept.iterdir()):
                trash.throw_away(entry)
    return is_new


def incoming_lineages(paths: VolumePath) -> list[Lineage]:
    """Return the rounds that have a directory here; raise VolumeError."""
    found = []
    with translated(f"cannot read {paths.incoming}"):
        for path in sorted(paths.incoming.iterdir()):
            with contextlib.suppress(RecordError):
                if path.is_dir() and not path.is_symlink():
                    found.append(Lineage.parse(path.name))
    return found


def published_names(path: Path) -> list[str]:
    """Return the names in this directory that begin as a step's; none if it is gone; raise VolumeError."""
    with translated(f"cannot read {path}"):
        try:
            return [entry.name for entry in path.iterdir() if entry.name.startswith(STEP_PREFIX)]
        except FileNotFoundError:
            return []

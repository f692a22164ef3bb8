"""The markers of an unfinished step, which show that its parts are there: their memory is bounded.

Others may write into the directory. So sizes and links are compared before anything is decoded.
"""

import os
import stat
from collections.abc import Sequence

from elasticjob_agent.keep.persist import files, layout
from elasticjob_agent.keep.persist.errors import PersistRefused
from elasticjob_agent.keep.persist.layout import PersistedFile

MARKER_BYTES = 8 << 20
"""The most bytes of one marker."""
STEP_BYTES = 64 << 20
"""The most bytes of all markers of a step."""


def encode(found: Sequence[PersistedFile]) -> bytes:
    """Return the contents of a marker; raise PersistRefused if no reader would take it."""
    data = layout.encode_marker(found)
    if len(data) > MARKER_BYTES:
        raise PersistRefused(
            f"the list of a part's files has {len(data)} bytes, and {MARKER_BYTES} at most; write fewer files"
        )
    return data


def read_all(parts: int, count: int) -> dict[str, PersistedFile] | None:
    """Return the files of a step by their names; None if a marker is missing. Raise PersistRefused for a forged one."""
    with os.scandir(parts) as scan:
        found = {index for entry in scan if (index := layout.parse_marker(entry.name)) is not None}
    if found != set(range(count)):
        return None
    names = [layout.marker_name(index) for index in range(count)]
    _check_sizes({name: os.stat(name, dir_fd=parts, follow_symlinks=False) for name in names})
    # One at a time: the texts of all of them are never in memory at once.
    return layout.merge_parts(layout.decode_marker(files.read(name, MARKER_BYTES, below=parts)) for name in names)


def _check_sizes(found: dict[str, os.stat_result]) -> None:
    for name, each in found.items():
        if not stat.S_ISREG(each.st_mode) or each.st_nlink != 1:
            raise PersistRefused(f"{name} in the list of parts is no file of a writer")
        if each.st_size > MARKER_BYTES:
            raise PersistRefused(f"{name} has {each.st_size} bytes; a list of files has {MARKER_BYTES} at most")
    if (total := sum(each.st_size for each in found.values())) > STEP_BYTES:
        raise PersistRefused(f"the lists of files have {total} bytes; those of a step have {STEP_BYTES} at most")

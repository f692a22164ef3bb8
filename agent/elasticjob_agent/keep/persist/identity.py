"""Which directory this is: its random id, and the job that it is of.

A user who may rename in the shared directory can exchange the directories of two jobs. So both are read again from
each descriptor that is worked from. The job has a file of its own: older versions refuse an id that is longer.
"""

import contextlib
import os
import secrets

from elasticjob_agent.keep.persist import files, layout
from elasticjob_agent.keep.persist.errors import PersistRefused

_ID_BYTES = len("0" * 17)
_NAME_BYTES = 512


def establish(fd: int, name: str) -> str:
    """Return the id; the first node makes it, and writes the name of the job's directory beside it."""
    _check_name(fd, name)
    _make_once(layout.ID, secrets.token_hex(8), below=fd)
    found = _read_id(fd)
    _make_once(layout.JOB, name, below=fd)
    _check_name(fd, name)
    return found


def check(fd: int, name: str, known: str) -> None:
    """Raise PersistRefused unless this is the directory of the job, and has the id that is known, if one is."""
    _check_name(fd, name)
    if known and _read_id(fd) != known:
        raise PersistRefused(f"{name} is another directory than before; move the earlier one back")


def _check_name(fd: int, name: str) -> None:
    with contextlib.suppress(FileNotFoundError):  # an older version made the directory
        found = files.read(layout.JOB, _NAME_BYTES, below=fd).decode("utf-8", "replace")
        if found != name:
            raise PersistRefused(
                f"{name} is the directory of another job, {found!r:.300}; "
                f"move it back, or delete its {layout.JOB} if it was given to this job"
            )


def _read_id(fd: int) -> str:
    text = files.read(layout.ID, _ID_BYTES, below=fd).decode("ascii", "replace")
    if not layout.is_id(text):
        raise PersistRefused(f"{layout.ID} is not the id of a directory of elasticjob")
    return text


def _make_once(name: str, text: str, *, below: int) -> None:
    """Write a file unless it is there. A link gives the file its name only when it is complete."""
    with contextlib.suppress(FileNotFoundError):
        os.stat(name, dir_fd=below, follow_symlinks=False)
        return
    draft = f"{name}.{secrets.token_hex(8)}"
    try:
        files.write_new(draft, text.encode(), below=below)
        with contextlib.suppress(FileExistsError):
            os.link(draft, name, src_dir_fd=below, dst_dir_fd=below, follow_symlinks=False)
    finally:
        with contextlib.suppress(FileNotFoundError):  # it could not be made
            os.unlink(draft, dir_fd=below)

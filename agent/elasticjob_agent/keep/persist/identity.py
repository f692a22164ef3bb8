"""Which directory this is: its owner, its random id, and the job that it is of.

A user who may rename in the shared directory can exchange the directories of two jobs. So all are read again from
each descriptor that is worked from. The job has a file of its own: older versions refuse an id that is longer.

A user who may write there can also make the directory before the job does. So its owner is the owner of what this
process makes. That is not always its own user: some file systems of networks give all files to another one.
"""

import contextlib
import os
import secrets
from dataclasses import dataclass

from elasticjob_agent.keep.persist import files, layout
from elasticjob_agent.keep.persist.errors import PersistRefused

_ID_BYTES = len("0" * 17)
_NAME_BYTES = 512


@dataclass(frozen=True, slots=True)
class DirectoryIdentity:
    """The facts by which the directory of a job is known again."""

    id: str
    owner: int
    """The user id of what this process makes in it."""


def establish(fd: int, name: str) -> DirectoryIdentity:
    """Return the identity; the first node makes the id, and writes the name of the job's directory beside it."""
    _check_name(fd, name)
    owner = _find_owner(fd)
    _check_owner(fd, name, owner)
    _make_once(layout.ID, secrets.token_hex(8), below=fd)
    found = _read_id(fd)
    _make_once(layout.JOB, name, below=fd)
    _check_name(fd, name)
    return DirectoryIdentity(found, owner)


def check(fd: int, name: str, known: DirectoryIdentity | None) -> None:
    """Raise PersistRefused unless this is the directory of the job, and the one that is known, if one is."""
    _check_name(fd, name)
    _check_owner(fd, name, _find_owner(fd) if known is None else known.owner)
    if known is not None and _read_id(fd) != known.id:
        raise PersistRefused(f"{name} is another directory than before; move the earlier one back")


def _check_name(fd: int, name: str) -> None:
    with contextlib.suppress(FileNotFoundError):  # an older version made the directory
        found = files.read(layout.JOB, _NAME_BYTES, below=fd).decode("utf-8", "replace")
        if found != name:
            raise PersistRefused(
                f"{name} is the directory of another job, {found!r:.300}; "
                f"move it back, or delete its {layout.JOB} if it was given to this job"
            )


def _find_owner(fd: int) -> int:
    """Return the owner of what this process makes here."""
    mine = os.geteuid()
    if os.fstat(fd).st_uid == mine:
        return mine
    draft = f"{layout.ID}.{secrets.token_hex(8)}"
    new = files.create(draft, below=fd)
    try:
        return os.fstat(new).st_uid
    finally:
        os.close(new)
        os.unlink(draft, dir_fd=fd)


def _check_owner(fd: int, name: str, owner: int) -> None:
    if (found := os.fstat(fd).st_uid) != owner:
        raise PersistRefused(
            f"{name} in keep.persistTo belongs to user {found}, and this node writes as user {owner}; "
            f"delete it, or give it to user {owner}"
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

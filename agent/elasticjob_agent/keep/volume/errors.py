"""Errors of the volume.

    VolumeError               the base; also: a file operation failed
    ├── VolumeUnavailable     the directory cannot be used: another keeper has it, or it is not a directory of ours
    ├── VolumeFullError       no room is left
    ├── PartRefused           a part breaks a rule of its contents, and is not taken or received
    │   ├── PublishRefused    a script has not published it as it must
    │   └── PartTooLargeError the part, or the list of its files, is larger than a bound
    ├── PartExists            the part is held already, or is being received
    ├── PartMissing           the part is not held
    ├── PartChangedError      a file of the part is not as it was when the part was published
    └── PartsCollideError     two parts of a step have different files of one name

An error of the operating system is the cause of one of these, and never leaves the package.
"""

import contextlib
import errno
from collections.abc import Iterator

from elasticjob_agent.keep.volume.script_errors import ScriptErrorKind


class VolumeError(Exception):
    """Base of this package's errors."""


class VolumeUnavailable(VolumeError):
    """Another keeper has this directory, or it is not one that a keeper may use."""


class VolumeFullError(VolumeError):
    """The file system is full, or the limit of this volume is reached."""


class PartRefused(VolumeError):
    """The contents of a part break a rule."""


class PublishRefused(PartRefused):
    """A script has published a part in a wrong way, or under a wrong number."""

    def __init__(self, kind: ScriptErrorKind, why: str) -> None:
        super().__init__(why)
        self.kind = kind


class PartTooLargeError(PartRefused):
    """A part, or the list of its files, is larger than a bound."""


class PartExists(VolumeError):
    """The part is held already, or another transfer of it is in progress."""


class PartMissing(VolumeError):
    """The part is not held here."""


class PartChangedError(VolumeError):
    """A file has another size, time or checksum than when the part was published."""


class PartsCollideError(VolumeError):
    """Two parts of a step have different files of one name."""


_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextlib.contextmanager
def translated(what: str) -> Iterator[None]:
    """Raise VolumeFullError or VolumeError for an OSError in this block; `what` begins the message."""
    try:
        yield
    except OSError as error:
        kind = VolumeFullError if error.errno in _FULL else VolumeError
        raise kind(f"{what}: {error.strerror}") from error

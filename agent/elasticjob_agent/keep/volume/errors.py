"""Errors of the volume.

    VolumeError               the base; also: a file operation failed
    ├── VolumeUnavailable     the directory cannot be used: another keeper has it, or it is not a directory of ours
    ├── VolumeFullError       no room is left
    ├── ResourcesShortError   this process or the machine lacks descriptors or memory: nothing is known of a part
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


class ResourcesShortError(VolumeError):
    """This process or the machine has no descriptor or no memory left; no part is at fault."""


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
_SHORT = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


@contextlib.contextmanager
def translated(what: str) -> Iterator[None]:
    """Raise a VolumeError of the right kind for an OSError in this block; `what` begins the message."""
    try:
        yield
    except OSError as error:
        raise error_of(error, what) from error


def error_of(error: OSError, what: str, other: type[VolumeError] = VolumeError) -> VolumeError:
    """Return a full volume or short resources as such, and any other error as `other`; `what` begins the message."""
    kind = VolumeFullError if error.errno in _FULL else ResourcesShortError if error.errno in _SHORT else other
    return kind(f"{what}: {error.strerror}")

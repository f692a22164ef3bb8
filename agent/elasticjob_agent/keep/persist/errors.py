"""Errors of the shared directory.

    PersistError                 the base; also: a file operation failed
    ├── DiskFullError            no room is left, or the quota is reached
    ├── PersistRefused           the directory, or what is in it, breaks a rule
    │   └── WholeStepRefused     one whole step is missing, or breaks a rule
    ├── SourceChangedError       a file in memory is not as its manifest describes it
    ├── WriteCancelledError      another request took the place of this one
    └── WriterLost               the writer process ended, or made no progress

An error of the operating system is the cause of one of these, and never leaves the package.
"""

import contextlib
import errno
import os
from collections.abc import Iterator


class PersistError(Exception):
    """Base of this package's errors."""


class DiskFullError(PersistError):
    """The file system has no room left, or a quota is reached."""


class PersistRefused(PersistError):
    """A name, a file or a directory that may not be used."""


class WholeStepRefused(PersistRefused):
    """A step that is missing or may not be used, in a directory that can be read."""


class SourceChangedError(PersistError):
    """A file has another size or checksum than when its part was published."""


class WriteCancelledError(PersistError):
    """The write was ended by another request."""


class WriterLost(PersistError):
    """The process that writes has ended, or the file system does not answer."""


_FULL = (errno.ENOSPC, errno.EDQUOT)


@contextlib.contextmanager
def translated(what: str) -> Iterator[None]:
    """Raise DiskFullError or PersistError for an OSError in this block; `what` begins the message."""
    try:
        yield
    except OSError as error:
        kind = DiskFullError if error.errno in _FULL else PersistError
        raise kind(f"{what}: {error.strerror or os.strerror(error.errno or 0)}") from error

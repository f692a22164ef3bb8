"""Errors of transfers between keepers, as a small tree.

TransferError
├── FrameError             a control line is malformed, too long, not signed for its place, or unexpected.
├── HandshakeError         the other end did not prove that it belongs to this job.
│   └── ForeignRunError    it belongs to the job, but to another run of it.
├── ConnectionEndedError   the connection could not be made, or it ended early.
│   └── StalledError       the other end made no progress in time.
├── CancelledTransferError this side has cancelled it.
└── NoSourceError          no known holder could send the part.
    └── UnreachedError     one of them has not answered, so it may have the part.

Errors of the own volume (`keep.volume.errors`) are none of these.
"""


class TransferError(Exception):
    """A transfer that ended without its result."""


class FrameError(TransferError):
    """A control line that is refused."""


class HandshakeError(TransferError):
    """The other end is a stranger."""


class ForeignRunError(HandshakeError):
    """The other end belongs to another run of the job."""


class ConnectionEndedError(TransferError):
    """The connection cannot be used."""


class StalledError(ConnectionEndedError):
    """The other end made no progress in time."""


class CancelledTransferError(TransferError):
    """This side has cancelled the transfer."""


class NoSourceError(TransferError):
    """No known holder could send the part in time."""


class UnreachedError(NoSourceError):
    """A holder that may have the part has not answered."""

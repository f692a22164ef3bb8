"""The operator's errors, as one tree.

OperatorError
├── ClusterError            the API server said no, or did not answer
│   ├── AlreadyExists       an object of this name is there
│   ├── Conflict            the object changed in between, or its uid is another
│   ├── Forbidden           permission, quota or an admission rule; the message names it
│   │   └── InvalidObject   the object itself is wrong; trying again is of no use before it has changed
│   ├── RetryLater          refused for the moment, and nothing was written: too many requests, or a webhook is away
│   ├── ClusterUnavailable  no answer in time; the outcome of a write is unknown
│   │   └── TimedOut        it may have been asked for too much at once
│   └── WatchDied           a watch has stopped telling what there is; only a new process helps
├── CredentialsError        a certificate authority that cannot be used; the message says what to give it
└── RenderError             a job that cannot become a pod; the message names the field
"""


class OperatorError(Exception):
    """Anything the operator reports about itself."""


class ClusterError(OperatorError):
    """The API server refused or failed."""

    retry_after_s: float = 0.0
    """The pause that the API server asked for (Retry-After); 0 when it named none."""


class AlreadyExists(ClusterError):
    """An object of this name is there."""


class Conflict(ClusterError):
    """The object changed in between, or is another object of the same name."""


class Forbidden(ClusterError):
    """Permission, quota or admission."""


class InvalidObject(Forbidden):
    """The object has a field that the API server does not know, or a value that it does not take."""


class RetryLater(ClusterError):
    """Refused for the moment; nothing was written."""


class ClusterUnavailable(ClusterError):
    """No answer in time."""


class TimedOut(ClusterUnavailable):
    """A request took too long."""


class WatchStale(ClusterError):
    """A watch has gone silent."""


class CredentialsError(OperatorError):
    """No certificates can be made."""


class RenderError(OperatorError):
    """A job that cannot become a pod."""

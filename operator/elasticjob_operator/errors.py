"""The operator's errors, as one tree.

A class is below its base class:

    OperatorError
    ├── ClusterError            the API server refused a request, or did not answer
    │   ├── AlreadyExists       an object of this name exists
    │   ├── Conflict            the object has changed since it was read, or has another uid
    │   ├── Forbidden           refused by a permission, a quota or an admission rule; the message names it
    │   │   └── InvalidObject   the object itself is wrong; a retry fails until it has changed
    │   ├── RetryLater          refused for now, nothing was written: too many requests, or a webhook is unavailable
    │   ├── ClusterUnavailable  no answer in time; the outcome of a write is unknown
    │   │   └── TimedOut        the request took too long; a smaller one may succeed
    │   └── WatchStale          a watch no longer delivers changes; only a new process helps
    ├── CredentialsError        a certificate authority cannot be used; the message names the cure
    └── RenderError             a job cannot be rendered as a pod; the message names the field
"""


class OperatorError(Exception):
    """Base class of the operator's errors."""


class ClusterError(OperatorError):
    """The API server refused a request or failed."""

    retry_after_s: float = 0.0
    """The pause that the API server asked for (Retry-After), in seconds; 0 without one."""


class AlreadyExists(ClusterError):
    """An object of this name exists."""


class Conflict(ClusterError):
    """The object has changed since it was read, or is another object of the same name."""


class Forbidden(ClusterError):
    """A permission, a quota or an admission rule forbids the request."""


class InvalidObject(Forbidden):
    """The object has a field that the API server does not know, or a value that it does not accept."""


class RetryLater(ClusterError):
    """The request was refused for now; nothing was written."""


class ClusterUnavailable(ClusterError):
    """The API server did not answer in time; the outcome of a write is unknown."""


class TimedOut(ClusterUnavailable):
    """A request took too long."""


class WatchStale(ClusterError):
    """A watch no longer delivers changes."""


class CredentialsError(OperatorError):
    """The certificate authority cannot be used, so no certificates can be issued."""


class RenderError(OperatorError):
    """A job cannot be rendered as a pod."""

"""What can go wrong in the operator, as one tree.

OperatorError
├── ClusterError            the API server said no, or did not answer
│   ├── AlreadyExists       an object of this name is there
│   ├── Conflict            the object changed in between, or its uid is another
│   ├── Forbidden           permission, quota or an admission rule; the message names it
│   ├── ClusterUnavailable  no answer in time; the outcome of a write is unknown
│   └── WatchDied           a watch has stopped telling what there is; only a new process helps
├── CredentialsError        a certificate authority that cannot be used; the message says what to give it
└── RenderError             a job that cannot become a pod; the message names the field
"""


class OperatorError(Exception):
    """Anything the operator reports about itself."""


class ClusterError(OperatorError):
    """The API server refused or failed."""


class AlreadyExists(ClusterError):
    """An object of this name is there."""


class Conflict(ClusterError):
    """The object changed in between, or is another object of the same name."""


class Forbidden(ClusterError):
    """Permission, quota or admission."""


class ClusterUnavailable(ClusterError):
    """No answer in time."""


class WatchDied(ClusterError):
    """A watch has gone silent."""


class CredentialsError(OperatorError):
    """No certificates can be made."""


class RenderError(OperatorError):
    """A job that cannot become a pod."""

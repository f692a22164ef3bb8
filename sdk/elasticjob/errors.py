"""Errors for callers of `elasticjob`, as one tree; every message names what was tried and the cure.

    ElasticJobError
    ├── InvalidJob         the manifest is invalid; `faults` has every fault with its field
    ├── MissingExtra       a library of the extra `[cli]` is not installed; the message names the pip command
    ├── ClusterError       the API server did not carry out a request
    │   ├── NoCluster      this is not a pod, and there is no usable kubeconfig
    │   ├── Unreachable    no answer, or a temporary error of the server: trying again may help
    │   ├── Forbidden      the server does not know the user, or denies the request
    │   ├── NotFound       there is no such object
    │   ├── CrdMissing     the cluster does not have the CRD of ElasticJob
    │   ├── AlreadyExists  the name is in use
    │   └── Rejected       the object breaks a rule of the CRD or of an admission webhook
    ├── JobFailed          `wait` ended because the job failed; `status` has the reason
    ├── CannotHappen       `wait` ended because the job has ended and can never reach the condition
    ├── JobGone            the job was deleted, or replaced by another job of the same name
    ├── WaitTimeout        `wait` reached its time limit (a TimeoutError too)
    ├── NoLogs             no pod has these logs at present
    ├── Unreadable         the object is of another version of ElasticJob
    └── CallError          `launch_nodes` or `join_nodes` had no result
        ├── CallFailed     a rank failed permanently; `failures` has each with its traceback
        ├── TooFewNodes    not enough nodes joined in time
        ├── CallerGone     for a node that had joined: the driver has ended
        └── NoRendezvous   the nodes cannot meet: no etcd, no driver, or another driver uses the rdzv_id

Errors of libraries never reach the caller directly: they are the `__cause__`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from elasticjob_api.errors import FieldError
from elasticjob_api.status import JobStatus

__all__ = [
    "AlreadyExists",
    "CallError",
    "CallFailed",
    "CallerGone",
    "CannotHappen",
    "ClusterError",
    "CrdMissing",
    "ElasticJobError",
    "Forbidden",
    "InvalidJob",
    "JobFailed",
    "JobGone",
    "MissingExtra",
    "NoCluster",
    "NoLogs",
    "NoRendezvous",
    "NotFound",
    "RankFailure",
    "Rejected",
    "TooFewNodes",
    "Unreachable",
    "Unreadable",
    "WaitTimeout",
]


class ElasticJobError(Exception):
    """The base of all errors of this package."""


class InvalidJob(ElasticJobError):
    """The manifest is invalid; the message has a line for each fault."""

    def __init__(self, message: str, faults: Sequence[FieldError] = ()) -> None:
        super().__init__(message)
        self.faults = tuple(faults)


class MissingExtra(ElasticJobError):
    """A library is not installed."""


class ClusterError(ElasticJobError):
    """The API server did not carry out a request."""


class NoCluster(ClusterError):
    """No cluster is configured."""


class Unreachable(ClusterError):
    """The API server does not answer, or cannot at present."""


class Forbidden(ClusterError):
    """The user does not have the permission."""


class NotFound(ClusterError):
    """The object does not exist."""


class CrdMissing(ClusterError):
    """The cluster does not have the CRD of ElasticJob."""


class AlreadyExists(ClusterError):
    """The name is in use."""


class Rejected(ClusterError):
    """The object breaks a rule."""


class JobFailed(ElasticJobError):
    """The job failed."""

    def __init__(self, message: str, status: JobStatus) -> None:
        super().__init__(message)
        self.status = status


class CannotHappen(ElasticJobError):
    """The job has ended, and not as the caller waited for."""


class JobGone(ElasticJobError):
    """The job does not exist any more."""


class WaitTimeout(ElasticJobError, TimeoutError):
    """`wait` reached its time limit."""


class NoLogs(ElasticJobError):
    """No pod has these logs."""


class Unreadable(ElasticJobError):
    """The object is of another version."""


class CallError(ElasticJobError):
    """A call over several nodes had no result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankFailure:
    """The failure of one rank of a call."""

    rank: int
    host: str
    error: str
    """`ValueError: text`; it begins with the step that failed, if that was not the function itself."""
    traceback: str
    """Traceback of the rank's interpreter."""


class CallFailed(CallError):
    """A rank failed; the message has the root cause, and the traceback of every rank that could send one."""

    def __init__(self, message: str, failures: Mapping[int, RankFailure]) -> None:
        super().__init__(message)
        self.failures = dict(failures)


class TooFewNodes(CallError):
    """The call has fewer nodes than its minimum."""


class CallerGone(CallError):
    """The driver of the call has ended, so that results have no receiver."""


class NoRendezvous(CallError):
    """The nodes cannot meet."""

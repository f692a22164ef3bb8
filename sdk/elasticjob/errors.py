"""Errors for callers of `elasticjob`, as one tree; every message has what was tried and what cures it.

    ElasticJobError
    ├── InvalidJob         a manifest that no operator will act on; `faults` has every fault with its field
    ├── MissingExtra       a library of the extra `[cli]` is not installed; the message names the pip command
    ├── ClusterError       the API server was asked, and did not do it
    │   ├── NoCluster      neither in a pod nor a usable kubeconfig: it is not known whom to ask
    │   ├── Unreachable    no answer, or a passing trouble of the server's own: asking again may help
    │   ├── Forbidden      the server knows who asks, or does not, and refuses
    │   ├── NotFound       there is no such object
    │   ├── CrdMissing     the cluster does not know ElasticJobs
    │   ├── AlreadyExists  the name is taken
    │   └── Rejected       the object breaks a rule of the CRD or of an admission webhook
    ├── JobFailed          it was waited for, and it failed; `status` has the reason
    ├── CannotHappen       it was waited for something that an ended job will never come to
    ├── JobGone            it was deleted meanwhile, or is another job of the same name
    ├── WaitTimeout        the time was up (a TimeoutError too)
    ├── NoLogs             no pod has these logs, now
    ├── Unreadable         the object is of another version of ElasticJob
    └── CallError          `launch_nodes` or `join_nodes` did not come to a result
        ├── CallFailed     a rank failed for good; `failures` has each with its traceback
        ├── TooFewNodes    not enough nodes came in time
        ├── CallerGone     for a node that had joined: whoever asked is gone
        └── NoRendezvous   the nodes cannot meet: no etcd, or nobody calls there, or somebody else does

Errors of libraries below never reach the caller: they are the `__cause__`.
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
    """Anything that goes wrong here."""


class InvalidJob(ElasticJobError):
    """A manifest with faults; the message has one line for each."""

    def __init__(self, message: str, faults: Sequence[FieldError] = ()) -> None:
        super().__init__(message)
        self.faults = tuple(faults)


class MissingExtra(ElasticJobError):
    """The installation is not complete."""


class ClusterError(ElasticJobError):
    """The API server did not do what it was asked."""


class NoCluster(ClusterError):
    """There is no cluster to ask."""


class Unreachable(ClusterError):
    """No answer, or not now."""


class Forbidden(ClusterError):
    """Not for this user."""


class NotFound(ClusterError):
    """No such object."""


class CrdMissing(ClusterError):
    """No such kind of object."""


class AlreadyExists(ClusterError):
    """The name is taken."""


class Rejected(ClusterError):
    """Against a rule."""


class JobFailed(ElasticJobError):
    """The job failed."""

    def __init__(self, message: str, status: JobStatus) -> None:
        super().__init__(message)
        self.status = status


class CannotHappen(ElasticJobError):
    """The job has ended, and differently."""


class JobGone(ElasticJobError):
    """There is no such job any more."""


class WaitTimeout(ElasticJobError, TimeoutError):
    """The time was up."""


class NoLogs(ElasticJobError):
    """Nothing to read from."""


class Unreadable(ElasticJobError):
    """Of another version."""


class CallError(ElasticJobError):
    """A function over several nodes came to nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankFailure:
    """How one rank of a call failed."""

    rank: int
    host: str
    error: str
    """`ValueError: text`, with what it was about where it was not the function itself."""
    traceback: str
    """Of the rank's own interpreter."""


class CallFailed(CallError):
    """A rank failed; the message has the root cause first, then the traceback of every rank that could tell one."""

    def __init__(self, message: str, failures: Mapping[int, RankFailure]) -> None:
        super().__init__(message)
        self.failures = dict(failures)


class TooFewNodes(CallError):
    """The call never had, or no longer has, the least number of nodes."""


class CallerGone(CallError):
    """The node that asked is gone, and with it the use of results."""


class NoRendezvous(CallError):
    """The nodes cannot meet."""

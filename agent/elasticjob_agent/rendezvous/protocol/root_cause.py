"""The root cause of a round: of its failures, the first in etcd's order of the lowest kind that there is."""

from enum import IntEnum

from elasticjob_agent.rendezvous.protocol.collateral_failures import blames_peer
from elasticjob_api.records import WorkerFailure
from elasticjob_api.rendezvous_view import FailureEntry

_ABORT = -6
_CRASHES = {-4, _ABORT, -7, -8, -11}
"""SIGILL, SIGABRT, SIGBUS, SIGFPE, SIGSEGV: signals that the agent never sends to stop a worker."""
_OWN_CRASHES = _CRASHES - {_ABORT}
_STACK = "what():"
_STDERR_MESSAGE = 500


class FailureKind(IntEnum):
    """The kind of a failure, as docs/failures.md numbers them."""

    KILLED = 1
    """Killed by a signal, out of memory, or MASTER_PORT taken."""
    EXITED = 2
    """Ended with an error of its own."""
    SIGNALLED = 3
    """Crashed, or reported an error, after the agent had signalled it."""
    COLLATERAL = 4
    """Reports a connection that a peer has closed."""


def root_cause(failures: list[FailureEntry]) -> FailureEntry | None:
    """Return the first failure of the lowest kind in etcd's order; None if the agents stopped all failed workers."""
    own = [f for f in failures if not f.failure.stopped_by_agent or is_own_failure(f.failure)]
    return min(own, key=lambda f: (failure_kind(f.failure), f.revision, f.key.local_rank), default=None)


def is_own_failure(failure: WorkerFailure) -> bool:
    """Whether a worker failed by itself although it was signalled: it had crashed, or wrote an error file."""
    return failure.exit_code in _CRASHES or bool(failure.message)


def failure_kind(failure: WorkerFailure) -> FailureKind:
    """Return the kind of a failure."""
    if failure.oom or failure.port_taken:
        return FailureKind.KILLED
    if is_collateral(failure):
        return FailureKind.COLLATERAL
    if failure.stopped_by_agent:
        return FailureKind.SIGNALLED
    return FailureKind.KILLED if failure.exit_code < 0 else FailureKind.EXITED


def is_collateral(failure: WorkerFailure) -> bool:
    """Whether the worker failed because of its peers."""
    if failure.exit_code in _OWN_CRASHES:
        return False
    # A C++ library aborts on an exception that it does not catch.
    uncaught = _uncaught(failure.stderr) if failure.exit_code == _ABORT else ""
    return blames_peer(f"{failure.message}\n{uncaught}")


def _uncaught(stderr: str) -> str:
    """Return the message of a C++ exception that was not caught, without the stack; or else the end of stderr."""
    at = stderr.rfind(_STACK)
    return stderr[-_STDERR_MESSAGE:] if at < 0 else stderr[at : at + _STDERR_MESSAGE]

"""Exit codes of the agent and of `elasticjob run`: one table, and the rule for the exit code of a worker.

A failed agent exits with the exit code of the root cause if that worker was its own (128 + number for a signal). If
the worker was on another node, it exits with PEER_FAILED. Code 1 and the codes of user programs pass through unchanged.
"""

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of our own programs, each with a sentence."""

    OK = 0  # the job succeeded
    FAILED = 1  # the job failed, and no worker's code is more specific
    USAGE = 2  # the command line or the manifest is wrong; nothing was started
    PEER_FAILED = 120  # the job failed; the root cause was on another node
    SUPERSEDED = 121  # another pod owns this slot, or this agent was evicted
    JOB_DELETED = 122  # the job no longer exists
    JOIN_TIMEOUT = 123  # too few nodes joined within joinTimeoutSeconds
    UNAVAILABLE = 124  # etcd could not be reached at the start
    INTERNAL = 125  # an error in elasticjob; a traceback was printed
    NOT_EXECUTABLE = 126  # the command exists and cannot be executed
    NOT_FOUND = 127  # the command was not found in the worker's PATH
    INTERRUPTED = 130  # stopped by SIGINT
    LEFT = 143  # stopped by SIGTERM: left the job in order


_SIGNAL_BASE = 128
_BYTE = 256


def exit_code_of(code: int) -> int:
    """Return a worker's exit code for a process: negative (a signal, as in `subprocess`) → 128 + number; else as is."""
    return _SIGNAL_BASE - code if code < 0 else code % _BYTE

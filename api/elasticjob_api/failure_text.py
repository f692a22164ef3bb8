"""A worker's failure as text: rank, pod, end, and the last line of its message."""

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from elasticjob_api.records import WorkerFailure
    from elasticjob_api.status import LastFailure  # no agent needs the status

OOM_KILLED = "OOMKilled"
"""`status.lastFailure.reason` of a worker that the kernel killed because memory was exhausted."""
NODE_LOST = "NodeLost"
"""`status.lastFailure.reason` of a node that was lost with its workers."""
_MESSAGE_LIMIT = 200
# The supervisor writes it and imports nothing of the project; its test reads all its messages with this pattern.
_COMMAND_AT_FAULT = r"(?:[^:]*: )?command (['\"]).*\1 (?:not found|cannot be executed)\b"


def is_command_at_fault(message: str) -> bool:
    """Whether the message of a failed start is that the command was not found or cannot be executed."""
    return re.match(_COMMAND_AT_FAULT, message) is not None


def describe_failure(failure: "WorkerFailure") -> str:
    """Return the text of a failure record."""
    return _describe(failure, failure.pod, oom=failure.oom)


def describe_last_failure(failure: "LastFailure") -> str:
    """Return the text of a failure in the status, which is that of its record."""
    return _describe(failure, failure.pod_name, oom=failure.reason == OOM_KILLED)


def _describe(failure: "WorkerFailure | LastFailure", pod: str, *, oom: bool) -> str:
    where = f" on {pod}" if pod else ""
    how = f"was killed by {failure.signal}" if failure.signal else f"exited with code {failure.exit_code}"
    cause = " (out of memory)" if oom else ""
    lines = failure.message.strip().splitlines()
    return f"rank {failure.rank}{where} {how}{cause}" + (f": {lines[-1][:_MESSAGE_LIMIT]}" if lines else "")

"""A worker's failure as text: rank, pod, end, and the last line of its message."""

from typing import TYPE_CHECKING

from elasticjob_api.records import WorkerFailure

if TYPE_CHECKING:
    from elasticjob_api.status import LastFailure  # no agent needs the status

OOM_KILLED = "OOMKilled"
"""`status.lastFailure.reason` of a worker that the kernel killed because memory was exhausted."""
_MESSAGE_LIMIT = 200


def describe_failure(failure: WorkerFailure) -> str:
    """Return the text of a failure record."""
    where = f" on {failure.pod}" if failure.pod else ""
    how = f"was killed by {failure.signal}" if failure.signal else f"exited with code {failure.exit_code}"
    oom = " (out of memory)" if failure.oom else ""
    lines = failure.message.strip().splitlines()
    return f"rank {failure.rank}{where} {how}{oom}" + (f": {lines[-1][:_MESSAGE_LIMIT]}" if lines else "")


def describe_last_failure(failure: "LastFailure") -> str:
    """Return the text of the record that the status has this failure from."""
    record = WorkerFailure(
        incarnation="",
        rank=failure.rank,
        exit_code=failure.exit_code,
        signal=failure.signal,
        message=failure.message,
        pod=failure.pod_name,
        oom=failure.reason == OOM_KILLED,
    )
    return describe_failure(record)

"""`status.lastFailure` of a job: the one reader of the command line, and the text of a failure."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from elasticjob_api.failure_text import NODE_LOST, OOM_KILLED
from elasticjob_cli.views.text import one_line

if TYPE_CHECKING:
    from elasticjob_api.status import LastFailure


def read_last_failure(status: Mapping[str, Any]) -> "LastFailure | None":
    """Return the last failure in a status; None if nothing has failed."""
    # No help page needs these two.
    from elasticjob.lenient_codec import read_known  # noqa: PLC0415
    from elasticjob_api.status import LastFailure  # noqa: PLC0415

    stored = status.get("lastFailure")
    return read_known(LastFailure, stored, "status.lastFailure") if stored else None


def failure_text(failure: "LastFailure") -> str:
    """Return the root cause in one line, which is not yet a sentence."""
    message = one_line(failure.message)
    if failure.reason == NODE_LOST:
        return message or f"pod {failure.pod_name} was lost"
    end = f"was killed by {failure.signal}" if failure.signal else f"exited with {failure.exit_code}"
    if failure.reason == OOM_KILLED:
        end += ", out of memory"
    node = f" on {failure.node_name}" if failure.node_name else ""
    words = f"rank {failure.rank} in pod {failure.pod_name}{node} {end} in round {failure.round}"
    return f"{words}: {message}" if message else words

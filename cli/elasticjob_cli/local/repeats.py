"""Lines that a run leaves out of its stream, because the stream or the summary has their content.

The stream has each cause once: as the worker wrote it, else in the operator's event. Only the summary has the end of
the job. The run folder keeps everything.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import replace

from elasticjob_api import log_layout
from elasticjob_api.constants import EventReason
from elasticjob_api.exit_codes import ExitCode
from elasticjob_api.failure_text import describe_last_failure
from elasticjob_api.one_line import one_line
from elasticjob_api.status import LastFailure
from elasticjob_operator.policy.status.events import worker_failed_text

_OWN_ENDS = {ExitCode.SUPERSEDED, ExitCode.JOB_DELETED, ExitCode.JOIN_TIMEOUT, ExitCode.UNAVAILABLE, ExitCode.INTERNAL}
"""Exit codes of an agent that ends for a reason of its own: no other line reports it."""
_MAX_BLOCKS = 256
_BLOCK_END = 4096


class RecentOutput:
    """The last output of the pods; of a large block only the end, since a cause is in the last line."""

    def __init__(self) -> None:
        """Begin without output."""
        self._blocks: deque[bytes] = deque(maxlen=_MAX_BLOCKS)

    def record(self, lines: bytes) -> None:
        """Keep a block of output for a while."""
        self._blocks.append(lines[-_BLOCK_END:])

    def has(self, text: str) -> bool:
        """Return whether a pod has written the last line of `text`."""
        last = _last_line(text)
        return bool(last) and any(_has_line(block, last) for block in reversed(self._blocks) if last in block)


def _last_line(text: str) -> bytes:
    return (text.strip().splitlines() or [""])[-1].strip().encode(errors="replace")


def _has_line(block: bytes, line: bytes) -> bool:
    """Return whether `line` is a line of the block, or the whole rest of one after a colon."""
    # A cause may be as short as `7`.
    wanted = line.decode(errors="replace")
    written = (log_layout.without_ranks(each.decode(errors="replace")).strip() for each in block.splitlines())
    return any(each == wanted or each.endswith(f": {wanted}") for each in written)


def is_end_of_job(line: bytes) -> bool:
    """Return whether a pod's line is its agent's line about the end of the job."""
    code = log_layout.parse_agent_end(line.decode(errors="replace"))
    return code is not None and code not in _OWN_ENDS


def event_line(reason: str, message: str, failure: LastFailure | None, recent: RecentOutput) -> str | None:
    """Return the line for an event of the operator; None for no line. `failure` is the last failure of the job."""
    if reason == EventReason.FAILED:
        return None
    if failure is None:
        return message
    if reason == EventReason.RENDEZVOUS_COMPLETED:  # an earlier line has the cause
        return _without_cause(message, failure, describe_last_failure)
    if reason == EventReason.WORKER_FAILED and recent.has(failure.message):
        return _without_cause(message, failure, worker_failed_text)
    return message


def _without_cause(message: str, failure: LastFailure, text_of: Callable[[LastFailure], str]) -> str:
    """Return the message without the worker's own message; unchanged if it is about another failure."""
    return message.replace(one_line(text_of(failure)), text_of(replace(failure, message="")))

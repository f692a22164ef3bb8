"""Lines that a run leaves out of its stream, because the stream or the summary has their content.

The stream has each cause once: as the worker wrote it, else in the operator's event. Only the summary has the end of
the job. The run folder keeps everything.
"""

import re
from collections import deque

from elasticjob_api import log_layout
from elasticjob_api.constants import EventReason
from elasticjob_api.exit_codes import ExitCode

_AGENT_END = re.compile(rb"elasticjob-agent: .* \(exit code (\d+)\)\s*")
_OWN_ENDS = {ExitCode.SUPERSEDED, ExitCode.JOB_DELETED, ExitCode.JOIN_TIMEOUT, ExitCode.UNAVAILABLE, ExitCode.INTERNAL}
"""Exit codes of an agent that ends for a reason of its own: no other line reports it."""
_FAILURE = re.compile(r"(rank \d+ on \S+ .*? in round \d+): (.*)", re.DOTALL)
_ROUND = re.compile(r"(round \d+: .*?; after: rank \d+ on \S+ (?:exited with|was killed by) [^:;]*): (.*)", re.DOTALL)
_MAX_BLOCKS = 256
_BLOCK_END = 4096


class RecentOutput:
    """The last output of the pods; of a large block only the end, since a cause is in the last line."""

    def __init__(self) -> None:
        """Begin without output."""
        self._blocks: deque[bytes] = deque(maxlen=_MAX_BLOCKS)
        self._failure = b""

    def record(self, lines: bytes) -> None:
        """Keep a block of output for a while."""
        self._blocks.append(lines[-_BLOCK_END:])

    def failed(self, message: str) -> None:
        """Keep the message of the last failure."""
        self._failure = message.encode(errors="replace")

    def has(self, text: str) -> bool:
        """Return whether a pod has written the last line of `text`."""
        last = _last_line(text)
        return bool(last) and any(_has_line(block, last) for block in reversed(self._blocks) if last in block)

    def is_known(self, text: str) -> bool:
        """Return whether a pod has written the last line of `text`, or the last failure's message has it."""
        last = _last_line(text)
        return self.has(text) or (bool(last) and _has_line(self._failure, last))


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
    end = _AGENT_END.fullmatch(line)
    return end is not None and int(end[1]) not in _OWN_ENDS


def event_line(reason: str, message: str, recent: RecentOutput) -> str | None:
    """Return the line for an event of the operator; None for no line."""
    if reason == EventReason.FAILED:
        return None
    if reason == EventReason.RENDEZVOUS_COMPLETED:
        return _round_line(message, recent)
    if reason != EventReason.WORKER_FAILED:
        return message
    recent.failed(message)
    failure = _FAILURE.fullmatch(message)
    return failure[1] if failure is not None and recent.has(failure[2]) else message


def _round_line(message: str, recent: RecentOutput) -> str:
    """Return the message, without the cause of the failure before the round if the stream has it."""
    after = _ROUND.fullmatch(message)
    if after is None:
        return message
    if recent.is_known(after[2]):
        return after[1]
    cause, _, rest = after[2].rpartition("; ")
    return f"{after[1]}; {rest}" if cause and recent.is_known(cause) else message

"""`status.nodes[].start`: how the workers of a node were started, from the report of its agent."""

from elasticjob_api.one_line import one_line, shorten
from elasticjob_api.records import NodeReport
from elasticjob_api.status import StartStatus
from elasticjob_operator.model.worker_starts import is_warm, plausible_first_output_s

WARM, COLD = "Warm", "Cold"
_REASON_LIMIT = 128
"""Characters of a reason: the list of nodes has a limit."""


def start_status(report: NodeReport | None) -> StartStatus | None:
    """Return how a node's workers were started, if its agent reports it."""
    if report is None or (start := report.start) is None:
        return None
    first_s = plausible_first_output_s(start)
    return StartStatus(
        kind=WARM if is_warm(start, len(report.workers)) else COLD,
        reason=shorten(one_line(start.cold_reason), _REASON_LIMIT),
        first_output_milliseconds=None if first_s is None else round(first_s * 1000),
    )

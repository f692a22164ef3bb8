"""The recoveries of a run in microseconds, from the trace that its agents wrote.

The agent's package defines the points of a trace.
"""

from pathlib import Path

from elasticjob_cli import recovery_timeline
from elasticjob_cli.errors import CliError

_NAME = "trace.jsonl"


class NoTrace(CliError):
    """There is no trace, or it does not contain the round."""


def read_trace(where: str, number: int | None) -> str:
    """Return the steps of every recovery, or of one with all its points; raise NoTrace.

    Args:
        where: the folder of a run, or a file that agents wrote because of ELASTICJOB_TRACE.
        number: the round; None for all.
    """
    path = Path(where) / _NAME if Path(where).is_dir() else Path(where)
    try:
        points = recovery_timeline.read(path.read_text(encoding="utf-8").splitlines())
    except OSError as error:
        raise NoTrace(
            f"{path}: there is no trace. Give the folder of a run, or the file that agents on a cluster "
            "write when the template sets ELASTICJOB_TRACE"
        ) from error
    found = recovery_timeline.recoveries(points)
    if number is None:
        return (
            "\n".join(recovery_timeline.show(each, points=False) for each in found) or f"{path}: no worker was started"
        )
    one = next((each for each in found if each.round == number), None)
    if one is None:
        known = ", ".join(str(each.round) for each in found) or "none"
        raise NoTrace(f"{path}: has no round {number}; its rounds: {known}")
    return recovery_timeline.show(one)

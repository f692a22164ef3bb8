"""Select the lines of a job's logs, and format a line."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from elasticjob_api import log_layout
from elasticjob_cli.errors import CliError
from elasticjob_cli.terminal import Style, paint
from elasticjob_cli.views.job_history import JobHistory, Round
from elasticjob_cli.views.last_failure import read_last_failure

if TYPE_CHECKING:
    from elasticjob import LogLine
    from elasticjob_api.status import LastFailure

_COLOURS = (Style.INFO, Style.GOOD, Style.WARN)
_EARLY_S = 0.5
"""Seconds: the operator sees a round begin later than its workers, which may have written lines by then."""


class NoSuchRound(CliError):
    """The job had no such round, or its time is unknown."""


def span_of(history: JobHistory, number: int | None) -> tuple[float, float]:
    """Return the time span of a round's lines, until those of the next round; None: of the round before the last.

    Output of workers that are being stopped belongs to the round that ends. Each line is in exactly one round.
    """
    rounds = list(history.rounds)
    index = rounds.index(_wanted(history, rounds, number))
    begins = [each.start_s - min(_EARLY_S, gap_s / 2) for each, gap_s in zip(rounds, history.gaps(), strict=True)]
    begins[0] = float("-inf") if rounds[0].number == 1 else begins[0]
    return begins[index], begins[index + 1] if index + 1 < len(begins) else float("inf")


def _wanted(history: JobHistory, rounds: Sequence[Round], number: int | None) -> Round:
    if number is None:
        if len(rounds) > 1:
            return rounds[-2]
        raise NoSuchRound(f"{history.name} had no round before the current one; leave out --previous")
    found = next((each for each in rounds if each.number == number), None)
    if found is not None:
        return found
    known = ", ".join(str(each.number) for each in rounds) or "none"
    raise NoSuchRound(f"the history of {history.name} has no round {number}; it has {known}")


def last(lines: Iterable["LogLine"], count: int | None, *, by_rank: bool) -> Iterable["LogLine"]:
    """Return the last lines of each rank, or of each pod, in their order; None for all of them."""
    if count is None:
        return lines
    left: Counter[int | str | None] = Counter()
    selected = []
    for line in reversed([*lines]):
        origin = line.rank if by_rank else line.pod
        left[origin] += 1
        if left[origin] <= count:
            selected.append(line)
    return reversed(selected)


def shown(rank: int | None, pod: str, text: str, *, alone: bool, time: str, colour: bool) -> str:
    """Return one line: unchanged for a single rank, else with its rank or pod in front."""
    when = f"{time} " if time else ""
    if alone:
        return when + text
    if rank is None:
        return f"{when}{paint(f'[{pod}]', Style.DIM, colour=colour)} {text}"
    return f"{when}{paint(log_layout.rank_mark(rank), _COLOURS[rank % len(_COLOURS)], colour=colour)} {text}"


def require_failure(job: Mapping[str, Any]) -> "LastFailure":
    """Return the last failure of the job; raise NoSuchRound if there is none."""
    failure = read_last_failure(job.get("status") or {})
    if failure is None:
        name = (job.get("metadata") or {}).get("name")
        raise NoSuchRound(f"{name} has no failed worker; leave out --failed")
    return failure

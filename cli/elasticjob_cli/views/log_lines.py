"""PURE: which lines of a job's logs are meant, and how a line is shown."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from elasticjob_cli.errors import CliError
from elasticjob_cli.terminal import Style, paint
from elasticjob_cli.views.job_history import JobHistory, Round

if TYPE_CHECKING:
    from elasticjob import LogLine

_COLOURS = (Style.INFO, Style.GOOD, Style.WARN)
_EARLY_S = 0.5
"""The operator sees a round begin when its workers have begun already: they may have written by then."""


class NoSuchRound(CliError):
    """The job has had no such round, or nobody remembers when it was."""


def span_of(history: JobHistory, number: int | None) -> tuple[float, float]:
    """When the lines of this round were written: until those of the next one. None: of the round before the last.

    What workers write while they are stopped belongs to the round that ends. No line is in two rounds, or in none.
    """
    rounds = list(history.rounds)
    index = rounds.index(_wanted(history, rounds, number))
    begins = [each.start_s - min(_EARLY_S, gap_s / 2) for each, gap_s in zip(rounds, history.gaps(), strict=True)]
    begins[0] = float("-inf") if history.exact and rounds[0].number == 1 else begins[0]
    return begins[index], begins[index + 1] if index + 1 < len(begins) else float("inf")


def _wanted(history: JobHistory, rounds: Sequence[Round], number: int | None) -> Round:
    if number is None:
        if len(rounds) > 1:
            return rounds[-2]
        raise NoSuchRound(f"{history.name} has had no round before the current one; leave --previous out")
    found = next((each for each in rounds if each.number == number), None)
    if found is not None:
        return found
    known = ", ".join(str(each.number) for each in rounds) or "none"
    raise NoSuchRound(f"{history.name} has no round {number} that is remembered; known are {known}")


def last(lines: Iterable["LogLine"], count: int | None, *, by_rank: bool) -> Iterable["LogLine"]:
    """The last lines of each rank, or of each pod, in their order; None: all of them."""
    if count is None:
        return lines
    left: Counter[int | str | None] = Counter()
    kept = []
    for line in reversed([*lines]):
        whose = line.rank if by_rank else line.pod
        left[whose] += 1
        if left[whose] <= count:
            kept.append(line)
    return reversed(kept)


def shown(rank: int | None, pod: str, text: str, *, alone: bool, time: str, colour: bool) -> str:
    """One line: of one rank alone as it was written, else with whose it is in front."""
    when = f"{time} " if time else ""
    if alone:
        return when + text
    if rank is None:
        return f"{when}{paint(f'[{pod}]', Style.DIM, colour=colour)} {text}"
    return f"{when}{paint(f'[rank{rank}]', _COLOURS[rank % len(_COLOURS)], colour=colour)} {text}"


def failed_place(job: Mapping[str, Any]) -> tuple[int, int, str, int]:
    """Rank, round and pod of the last failure, and its local rank; raises NoSuchRound when nothing has failed."""
    failure = (job.get("status") or {}).get("lastFailure")
    if not failure:
        name = (job.get("metadata") or {}).get("name")
        raise NoSuchRound(f"nothing of {name} has failed; leave --failed out")
    return int(failure["rank"]), int(failure["round"]), str(failure["podName"]), int(failure["localRank"])

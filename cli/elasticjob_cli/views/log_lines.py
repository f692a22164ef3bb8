"""PURE: which lines of a job's logs are meant, and how a line is shown."""

from collections.abc import Mapping, Sequence
from typing import Any

from elasticjob_cli.errors import CliError
from elasticjob_cli.terminal import Style, painted
from elasticjob_cli.views.story import Round, Story

_COLOURS = (Style.INFO, Style.GOOD, Style.WARN)
_SLACK_S = 1.0
"""Rounds that are known from events only are known to the second."""


class NoSuchRound(CliError):
    """The job has had no such round, or nobody remembers when it was."""


def span_of(told: Story, number: int | None) -> tuple[float, float]:
    """When the lines of this round were written: until the next one began. None: of the round before the last."""
    rounds = list(told.rounds)
    wanted = _wanted(told, rounds, number)
    index = rounds.index(wanted)
    following = rounds[index + 1].start_s if index + 1 < len(rounds) else float("inf")
    slack_s = 0.0 if told.exact else _SLACK_S
    return wanted.start_s - max(slack_s, _SLACK_S if index == 0 else slack_s), following + slack_s


def _wanted(told: Story, rounds: Sequence[Round], number: int | None) -> Round:
    if number is None:
        if len(rounds) > 1:
            return rounds[-2]
        raise NoSuchRound(f"{told.name} has had no round before the current one; leave --previous out")
    found = next((each for each in rounds if each.number == number), None)
    if found is not None:
        return found
    known = ", ".join(str(each.number) for each in rounds) or "none"
    raise NoSuchRound(f"{told.name} has no round {number} that is remembered; known are {known}")


def shown(rank: int | None, pod: str, text: str, *, alone: bool, time: str, colour: bool) -> str:
    """One line: of one rank alone as it was written, else with whose it is in front."""
    when = f"{time} " if time else ""
    if alone:
        return when + text
    if rank is None:
        return f"{when}{painted(f'[{pod}]', Style.DIM, colour=colour)} {text}"
    return f"{when}{painted(f'[rank{rank}]', _COLOURS[rank % len(_COLOURS)], colour=colour)} {text}"


def failed_place(job: Mapping[str, Any]) -> tuple[int, int, str, int]:
    """Rank, round and pod of the last failure, and its local rank; raises NoSuchRound when nothing has failed."""
    failure = (job.get("status") or {}).get("lastFailure")
    if not failure:
        name = (job.get("metadata") or {}).get("name")
        raise NoSuchRound(f"nothing of {name} has failed; leave --failed out")
    return int(failure["rank"]), int(failure["round"]), str(failure["podName"]), int(failure["localRank"])

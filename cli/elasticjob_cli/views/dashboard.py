"""PURE: one picture of the live view: what a terminal of this size shows of a job at this moment.

As many lines as fit, the important ones first; `node_lines` has those of nodes and ranks.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from elasticjob_cli.terminal import Style
from elasticjob_cli.views.job_history import Moment, Story
from elasticjob_cli.views.job_text import failure_words
from elasticjob_cli.views.node_lines import node_lines
from elasticjob_cli.views.rank_map import GLYPHS, STYLES
from elasticjob_cli.views.styled_line import Line, plain
from elasticjob_cli.views.text import age, clock, counted, duration, moment, one_line, wrapped
from elasticjob_cli.views.usage import Usage

_BAR, _SHORT_BAR, _WIDE = 30, 16, 100
"""Columns of the progress bar, and of a terminal that has room for the long one."""
_MOST_MOMENTS = 6
_LEAST_FOOT = 3
"""The rounds and the last event, however many nodes there are."""
_LEAST_WIDTH = 40
_PHASES = {
    "Running": Style.GOOD,
    "Succeeded": Style.GOOD,
    "Failed": Style.BAD,
    "Restarting": Style.WARN,
    "Resizing": Style.INFO,
    "Pending": Style.WARN,
    "Starting": Style.INFO,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What the view is made of."""

    job: Mapping[str, Any]
    now_s: float
    story: Story
    usage: Mapping[str, Usage] = field(default_factory=dict)
    """By pod, of a metrics server; the status has its own where the operator samples."""
    notice: str = ""
    """What is wrong with seeing itself."""


def frame(seen: Seen, *, width: int, height: int, colour: bool) -> list[str]:
    """At most `height` lines of at most `width` columns."""
    width = max(_LEAST_WIDTH, width)
    head, foot = list(_head(seen, width)), list(_foot(seen))
    room = height - len(head)
    nodes = list(
        node_lines(seen.job.get("status") or {}, seen.usage, max(4, room - min(len(foot), _LEAST_FOOT)), width)
    )
    foot = foot[: max(0, room - len(nodes))]
    return [line.render(width, colour=colour) for line in [*head, *nodes, *foot][:height]]


def _head(seen: Seen, width: int) -> Iterator[Line]:
    status = seen.job.get("status") or {}
    yield _title(seen, status, width)
    if (told := _progress(status, seen.now_s, _BAR if width >= _WIDE else _SHORT_BAR)) is not None:
        yield told
    if status.get("reason") or status.get("message"):
        words = ": ".join(filter(None, (str(status.get("reason") or ""), one_line(str(status.get("message") or "")))))
        tone = Style.BAD if status.get("phase") == "Failed" else Style.WARN
        yield from (plain(line, tone) for line in wrapped(words, width, most=2))
    if status.get("lastFailure"):
        failure = status["lastFailure"]
        at_s = moment(failure.get("time"))
        when = "" if at_s is None else f" {age(seen.now_s - at_s)} ago"
        first, *rest = wrapped(f"last failure{when}: {failure_words(failure)}", width, most=2)
        label, _, words = first.partition(": ")
        yield Line(((f"{label}: ", Style.DIM), (words, Style.PLAIN)))
        yield from map(plain, rest)
    if seen.notice:
        yield plain(seen.notice, Style.BAD)
    yield _states(status)


def _title(seen: Seen, status: Mapping[str, Any], width: int) -> Line:
    """Where it is too long, without what has not happened, and with as short a time as kubectl's."""
    meta, phase = seen.job.get("metadata") or {}, str(status.get("phase") or "Pending")
    wanted = status.get("desiredReplicas") or (seen.job.get("spec") or {}).get("replicas") or 1
    counts = [
        f"round {status.get('rendezvousRound') or 0}",
        f"{status.get('readyReplicas') or 0}/{wanted} nodes",
        counted(int(status.get("worldSize") or 0), "worker"),
        counted(int(status.get("restarts") or 0), "restart"),
        counted(int(status.get("nodeLosses") or 0), "loss", "losses"),
    ]
    name = f"{meta.get('namespace', 'default')}/{meta.get('name')}"
    begun_s, ended_s = moment(status.get("startTime")), moment(status.get("completionTime"))
    took_s = None if begun_s is None else (seen.now_s if ended_s is None else ended_s) - begun_s
    happened = [each for each in counts if not each.startswith("no ")]
    for said, took in ((counts, duration), (happened, duration), (happened, age)):
        words = "  ".join([*said, *([] if took_s is None else [took(took_s)])])
        if len(f"{name}  {phase}  {words}") <= width:
            break
    tone = _PHASES.get(phase, Style.PLAIN)
    return Line(((name, Style.BOLD), ("  ", Style.PLAIN), (phase, tone), (f"  {words}", Style.PLAIN)))


def _progress(status: Mapping[str, Any], now_s: float, bar: int) -> Line | None:
    told = status.get("progress") or {}
    if told.get("step") is None:
        return None
    share = told.get("percentage")
    pieces: list[tuple[str, Style]] = []
    if share is not None:
        full = round(bar * int(share) / 100)
        pieces = [("█" * full, Style.GOOD), ("░" * (bar - full), Style.DIM), (f" {share}%", Style.BOLD)]
    of = f"/{told['total']}" if told.get("total") else ""
    metrics = "".join(f"  {name} {value}" for name, value in (told.get("metrics") or {}).items())
    at_s = moment(told.get("lastUpdatedTime"))
    when = "" if at_s is None else f"  ({age(now_s - at_s)} ago)"
    return Line((*pieces, (f"  step {told['step']}{of}{metrics}", Style.PLAIN), (when, Style.DIM)))


_NAMES = ("running", "starting", "pending", "succeeded", "failed", "stopped", "unknown")


def _states(status: Mapping[str, Any]) -> Line:
    counts = status.get("workerStates") or {}
    pieces: list[tuple[str, Style]] = [("workers: ", Style.DIM)]
    letters = {"running": "R", "starting": "S", "pending": "P", "succeeded": "C", "failed": "F", "stopped": "T"}
    for name in _NAMES:
        if counts.get(name):
            letter = letters.get(name, "U")
            pieces.append((f"{GLYPHS[letter]} {counts[name]} {name}  ", STYLES[letter]))
    return Line(pieces if len(pieces) > 1 else [("no workers", Style.DIM)])


def _foot(seen: Seen) -> Iterator[Line]:
    rounds = seen.story.rounds[-8:]
    if rounds:
        yield plain("")
        spans = [f"{one.number}: {duration(seen.story.end_of(one) - one.start_s)}" for one in reversed(rounds)]
        yield Line((("rounds  ", Style.DIM), ("   ".join(spans), Style.PLAIN)))
    moments: Sequence[Moment] = list(seen.story.moments)[-_MOST_MOMENTS:]
    for each in reversed(moments):
        tone = Style.WARN if each.warning else Style.PLAIN
        yield Line(((f"{clock(each.time_s)}  ", Style.DIM), (f"{each.reason}: {one_line(each.message)}", tone)))

"""One picture of the live view: a job, for a terminal of a given size.

It has as many lines as fit, the important ones first; `node_lines` makes those of nodes and ranks.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from elasticjob_cli.terminal import Style
from elasticjob_cli.views.job_history import HistoryEntry, JobHistory
from elasticjob_cli.views.last_failure import failure_text, read_last_failure
from elasticjob_cli.views.node_lines import node_lines
from elasticjob_cli.views.rank_map import GLYPHS, STYLES
from elasticjob_cli.views.styled_line import StyledLine, plain
from elasticjob_cli.views.text import age, clock, duration, one_line, parse_time, pluralize, sentence, wrap_lines
from elasticjob_cli.views.usage import Usage

_BAR, _SHORT_BAR, _WIDE = 30, 16, 100
"""Columns of the long and the short progress bar, and of a terminal with room for the long one."""
_MAX_ENTRIES = 6
_MIN_FOOTER = 3
"""Lines for the rounds and the last event, for any number of nodes."""
_MIN_WIDTH = 40
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
class WatchState:
    """The input of the view."""

    job: Mapping[str, Any]
    now_s: float
    history: JobHistory
    usage: Mapping[str, Usage] = field(default_factory=dict)
    """Usage by pod, from a metrics server; where the operator samples, the status has it."""
    notice: str = ""
    """A problem with the watch itself, for example its error."""


def dashboard(state: WatchState, *, width: int, height: int, colour: bool) -> list[str]:
    """Return at most `height` lines of at most `width` columns."""
    width = max(_MIN_WIDTH, width)
    head, foot = list(_head(state, width)), list(_foot(state))
    room = height - len(head)
    nodes = list(
        node_lines(state.job.get("status") or {}, state.usage, max(4, room - min(len(foot), _MIN_FOOTER)), width)
    )
    foot = foot[: max(0, room - len(nodes))]
    return [line.render(width, colour=colour) for line in [*head, *nodes, *foot][:height]]


def _head(state: WatchState, width: int) -> Iterator[StyledLine]:
    status = state.job.get("status") or {}
    yield _title(state, status, width)
    if (progress := _progress(status, state.now_s, _BAR if width >= _WIDE else _SHORT_BAR)) is not None:
        yield progress
    if status.get("reason") or status.get("message"):
        words = ": ".join(filter(None, (str(status.get("reason") or ""), one_line(str(status.get("message") or "")))))
        tone = Style.BAD if status.get("phase") == "Failed" else Style.WARN
        yield from (plain(line, tone) for line in wrap_lines(words, width, most=2))
    if (failure := read_last_failure(status)) is not None:
        at_s = parse_time(failure.time)
        when = "" if at_s is None else f" {age(state.now_s - at_s)} ago"
        label = f"last failure{when}: "
        first, *rest = wrap_lines(sentence(f"{label}{failure_text(failure)}"), width, most=2)
        yield StyledLine(((label, Style.DIM), (first.removeprefix(label), Style.PLAIN)))
        yield from map(plain, rest)
    if state.notice:
        yield plain(state.notice, Style.BAD)
    yield _states(status)


def _title(state: WatchState, status: Mapping[str, Any], width: int) -> StyledLine:
    """Return the title line; if it is too long, without zero counts and with times as short as kubectl's."""
    meta, phase = state.job.get("metadata") or {}, str(status.get("phase") or "Pending")
    wanted = status.get("desiredReplicas") or (state.job.get("spec") or {}).get("replicas") or 1
    numbers = [int(status.get(name) or 0) for name in ("worldSize", "restarts", "nodeLosses")]
    nouns = [("worker", "workers"), ("restart", "restarts"), ("loss", "losses")]
    counted = [(number, pluralize(number, *words)) for number, words in zip(numbers, nouns, strict=True)]
    size = [f"round {status.get('rendezvousRound') or 0}", f"{status.get('readyReplicas') or 0}/{wanted} nodes"]
    counts = [*size, *(text for _, text in counted)]
    happened = [*size, *(text for number, text in counted if number)]
    name = f"{meta.get('namespace', 'default')}/{meta.get('name')}"
    begun_s, ended_s = parse_time(status.get("startTime")), parse_time(status.get("completionTime"))
    took_s = None if begun_s is None else (state.now_s if ended_s is None else ended_s) - begun_s
    for parts, took in ((counts, duration), (happened, duration), (happened, age)):
        words = "  ".join([*parts, *([] if took_s is None else [took(took_s)])])
        if len(f"{name}  {phase}  {words}") <= width:
            break
    tone = _PHASES.get(phase, Style.PLAIN)
    return StyledLine(((name, Style.BOLD), ("  ", Style.PLAIN), (phase, tone), (f"  {words}", Style.PLAIN)))


def _progress(status: Mapping[str, Any], now_s: float, bar: int) -> StyledLine | None:
    progress = status.get("progress") or {}
    if progress.get("step") is None:
        return None
    share = progress.get("percentage")
    pieces: list[tuple[str, Style]] = []
    if share is not None:
        full = round(bar * int(share) / 100)
        pieces = [("█" * full, Style.GOOD), ("░" * (bar - full), Style.DIM), (f" {share}%", Style.BOLD)]
    of = f"/{progress['total']}" if progress.get("total") else ""
    metrics = "".join(f"  {name} {value}" for name, value in (progress.get("metrics") or {}).items())
    at_s = parse_time(progress.get("lastUpdatedTime"))
    when = "" if at_s is None else f"  ({age(now_s - at_s)} ago)"
    return StyledLine((*pieces, (f"  step {progress['step']}{of}{metrics}", Style.PLAIN), (when, Style.DIM)))


_NAMES = ("running", "starting", "pending", "succeeded", "failed", "stopped", "unknown")


def _states(status: Mapping[str, Any]) -> StyledLine:
    counts = status.get("workerStates") or {}
    pieces: list[tuple[str, Style]] = [("workers: ", Style.DIM)]
    letters = {"running": "R", "starting": "S", "pending": "P", "succeeded": "C", "failed": "F", "stopped": "T"}
    for name in _NAMES:
        if counts.get(name):
            letter = letters.get(name, "U")
            pieces.append((f"{GLYPHS[letter]} {counts[name]} {name}  ", STYLES[letter]))
    return StyledLine(pieces if len(pieces) > 1 else [("no workers", Style.DIM)])


def _foot(state: WatchState) -> Iterator[StyledLine]:
    rounds = state.history.rounds[-8:]
    if rounds:
        yield plain("")
        spans = [f"{one.number}: {duration(state.history.end_of(one) - one.start_s)}" for one in reversed(rounds)]
        yield StyledLine((("rounds  ", Style.DIM), ("   ".join(spans), Style.PLAIN)))
    history_entries: Sequence[HistoryEntry] = list(state.history.history_entries)[-_MAX_ENTRIES:]
    for each in reversed(history_entries):
        tone = Style.WARN if each.warning else Style.PLAIN
        yield StyledLine(((f"{clock(each.time_s)}  ", Style.DIM), (f"{each.reason}: {one_line(each.message)}", tone)))

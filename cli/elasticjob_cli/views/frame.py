"""PURE: one picture of the live view: what a terminal of this size shows of a job at this moment.

As many lines as fit, the important ones first. Few nodes are a table; more of them are a map with one letter a rank,
in rank order, and below it only those nodes that do not run.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from elasticjob_cli.terminal import Style, painted
from elasticjob_cli.views.rank_map import GLYPHS, STYLES, level_map, rank_map
from elasticjob_cli.views.sentences import failure_words
from elasticjob_cli.views.story import Moment, Story
from elasticjob_cli.views.text import age, clock, counted, cut, duration, moment, one_line, size, wrapped
from elasticjob_cli.views.usage import Usage, levels, outliers, usages

_BAR, _SHORT_BAR, _WIDE = 30, 16, 100
"""Columns of the progress bar, and of a terminal that has room for the long one."""
_MOST_MOMENTS = 6
_LEAST_FOOT = 3
"""The rounds and the last event, however many nodes there are."""
_MOST_MISSING = 6
"""Nodes that do not run, before the use of those that do takes the room."""
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


@dataclass(frozen=True, slots=True)
class Line:
    """Pieces of text with their styles."""

    pieces: Sequence[tuple[str, Style]]

    def render(self, width: int, *, colour: bool) -> str:
        """At most `width` columns."""
        out, left = [], width
        for text, style in self.pieces:
            shown = cut(text, left)
            out.append(painted(shown, style, colour=colour))
            left -= len(shown)
            if left <= 0:
                break
        return "".join(out).rstrip() if not colour else "".join(out)


def plain(text: str, style: Style = Style.PLAIN) -> Line:
    """A line in one style."""
    return Line(((text, style),))


def frame(seen: Seen, *, width: int, height: int, colour: bool) -> list[str]:
    """At most `height` lines of at most `width` columns."""
    width = max(_LEAST_WIDTH, width)
    head, foot = list(_head(seen, width)), list(_foot(seen))
    room = height - len(head)
    nodes = list(_nodes(seen, max(4, room - min(len(foot), _LEAST_FOOT)), width))
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
    """Where it is too long, without what has not happened."""
    meta, phase = seen.job.get("metadata") or {}, str(status.get("phase") or "Pending")
    wanted = status.get("desiredReplicas") or (seen.job.get("spec") or {}).get("replicas") or 1
    counts = [
        f"round {status.get('rendezvousRound') or 0}",
        f"{status.get('readyReplicas') or 0}/{wanted} nodes",
        counted(int(status.get("worldSize") or 0), "worker"),
        counted(int(status.get("restarts") or 0), "restart"),
        counted(int(status.get("nodeLosses") or 0), "loss", "losses"),
    ]
    begun_s = moment(status.get("startTime"))
    if begun_s is not None:
        ended_s = moment(status.get("completionTime"))
        counts.append(duration((seen.now_s if ended_s is None else ended_s) - begun_s))
    name = f"{meta.get('namespace', 'default')}/{meta.get('name')}"
    if len("  ".join((name, phase, *counts))) > width:
        counts = [each for each in counts if not each.startswith("no ")]
    tone = _PHASES.get(phase, Style.PLAIN)
    return Line(((name, Style.BOLD), ("  ", Style.PLAIN), (phase, tone), ("  " + "  ".join(counts), Style.PLAIN)))


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


def _nodes(seen: Seen, room: int, width: int) -> Iterator[Line]:
    status = seen.job.get("status") or {}
    nodes: Sequence[Mapping[str, Any]] = sorted(status.get("nodes") or (), key=_by_rank)
    used = usages(nodes, seen.usage)
    if not nodes:
        return
    yield plain("")
    if len(nodes) + 2 <= room:
        yield from _table(nodes, used, width)
        return
    ranks = [Line(pieces) for pieces in rank_map(nodes, width=width)]
    missing = [node for node in nodes if node.get("state") not in {"Running", "Succeeded"}]
    used_lines = _used(nodes, used, room - 1 - len(ranks) - min(len(missing), _MOST_MISSING), width)
    yield from ranks
    yield from _away(missing, max(0, room - 2 - len(ranks) - len(used_lines)))
    yield from used_lines
    if status.get("nodesTruncated"):
        yield plain(f"(the status has room for {len(nodes)} nodes only)", Style.DIM)


def _away(missing: Sequence[Mapping[str, Any]], room: int) -> Iterator[Line]:
    """Nodes that do not run, those that failed first, and how many more there are."""
    told = sorted(missing, key=lambda node: node.get("state") != "Failed")[:room]
    yield from (plain(_missing(node), Style.WARN) for node in told)
    if len(missing) > len(told):
        rest = counted(len(missing) - len(told), "more node" if told else "node")
        yield plain(f"and {rest} not running" if told else f"{rest} not running", Style.WARN)


def _used(nodes: Sequence[Mapping[str, Any]], used: Mapping[str, Usage], room: int, width: int) -> list[Line]:
    """Cpu and memory: a line each, and below it a map of all nodes where the terminal is tall enough."""
    heads = outliers(used)
    if not heads:
        return []
    of_nodes = [used[str(node.get("podName"))] for node in nodes]
    maps = [
        [Line(pieces) for pieces in level_map(levels(found), width=width)]
        for found in ([each.cpu_percent for each in of_nodes], [each.memory_bytes for each in of_nodes])
    ]
    if len(heads) + sum(map(len, maps)) > room:
        return [*map(plain, heads)]
    return [line for head, lines in zip(heads, maps, strict=True) for line in (plain(head), *lines)]


def _by_rank(node: Mapping[str, Any]) -> tuple[bool, int]:
    rank = node.get("rank")
    return rank is None, int(rank or 0)


_HEAD = ("RANKS", "POD", "NODE", "STATE", "CPU", "MEMORY", "", "REASON")


def _table(nodes: Sequence[Mapping[str, Any]], used: Mapping[str, Usage], width: int) -> Iterator[Line]:
    rows: list[tuple[str, ...]] = [_HEAD]
    first = 0
    for node in nodes:
        letters = str(node.get("ranks") or "")
        ranks = "-" if node.get("rank") is None else f"{first}-{first + len(letters) - 1}"
        first += 0 if node.get("rank") is None else len(letters)
        ranks = ranks if len(letters) != 1 else ranks.partition("-")[0] or "-"
        use = used.get(str(node.get("podName")), Usage())
        cpu = "-" if use.cpu_percent is None else f"{use.cpu_percent:.0f}%"
        memory = "-" if use.memory_bytes is None else size(use.memory_bytes)
        place = (str(node.get("podName") or "-"), str(node.get("nodeName") or "-"), str(node.get("state") or "-"))
        rows.append((ranks, *place, cpu, memory, letters, str(node.get("reason") or "")))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    if sum(widths) + 2 * len(widths) > width:
        widths[_NODE] = -2  # the pod says more
    for row in rows:
        yield Line(_cells(row, widths, head=row is rows[0]))


def _cells(row: Sequence[str], widths: Sequence[int], *, head: bool) -> list[tuple[str, Style]]:
    pieces: list[tuple[str, Style]] = []
    for index, (cell, room) in enumerate(zip(row, widths, strict=True)):
        if room < 0:
            continue
        if head:
            pieces.append((cell.ljust(room + 2), Style.DIM))
        elif index == _LETTERS:
            pieces += [(GLYPHS.get(letter, letter), STYLES.get(letter, Style.PLAIN)) for letter in cell]
            pieces.append((" " * (room + 2 - len(cell)), Style.PLAIN))
        else:
            pieces.append((cell.ljust(room + 2), Style.WARN if index == len(row) - 1 else Style.PLAIN))
    return pieces


_NODE, _LETTERS = _HEAD.index("NODE"), _HEAD.index("")


def _missing(node: Mapping[str, Any]) -> str:
    where = f" on {node['nodeName']}" if node.get("nodeName") else ""
    why = f": {node['reason']}" if node.get("reason") else ""
    return f"{node.get('podName')}{where} {str(node.get('state') or 'Unknown').lower()}{why}"


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

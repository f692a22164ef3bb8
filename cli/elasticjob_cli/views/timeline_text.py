"""The history of a job for the terminal: a line for each round, and a chart with a row for each group of nodes.

Nodes that were in the same rounds share a row, so that five hundred of them are as readable as three.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from elasticjob_api.slot_ranges import format_slots
from elasticjob_cli.views.job_history import JobHistory, Round
from elasticjob_cli.views.text import align, clock, cut, day, duration, one_line, pluralize, wrap_lines

_ON, _OFF, _FAILED = "█", "·", "×"
_MOST_ROWS = 24
_LABEL = 24
_MIN_REASON, _INDENT = 40, 7
"""Least columns for the reason beside the numbers of a round, and its indentation below them."""


def timeline(history: JobHistory, *, width: int) -> list[str]:
    """Return the lines, of at most `width` columns each."""
    lines = [*wrap_lines(headline(history), width), f"from {day(history.start_s)} to {day(history.end_s)}", ""]
    if not history.rounds:
        return [*lines, "no round has run yet" if history.live else "no round has run"]
    lines += _table(history, width)
    return [*lines, "", *chart(history, width=width)]


def headline(history: JobHistory) -> str:
    """Return the counts, and the share of time in rounds."""
    total_s = max(history.end_s - history.start_s, 1e-9)
    share = 100 * min(1.0, history.in_rounds_s / total_s)
    counts = f"{pluralize(history.restarts, 'restart')}, {pluralize(history.losses, 'node loss', 'node losses')}"
    last = history.rounds[-1].number if history.rounds else 0
    return f"{history.name} {history.phase}: round {last}, {counts}, {duration(total_s)}, {share:.1f} % of it in rounds"


def _table(history: JobHistory, width: int) -> list[str]:
    """Return a line for each round; its reason is beside the numbers, or below them on a narrow terminal."""
    rows = list(_rows(history))
    plain = align([_HEAD[:-1], *(row[:-1] for row in rows)], gap="  ")
    room = max(map(len, plain)) + 2
    if width - room < _MIN_REASON and any(len(row[-1]) > width - room for row in rows):
        below = [
            [line, *(f"{'':<{_INDENT}}{more}" for more in wrap_lines(row[-1], width - _INDENT))]
            for line, row in zip(plain[1:], rows, strict=True)
        ]
        return [cut(line, width) for lines in ([plain[0]], *below) for line in lines]
    lines = [f"{plain[0]:<{room}}{_HEAD[-1]}"]
    for line, row in zip(plain[1:], rows, strict=True):
        first, *rest = wrap_lines(row[-1], width - room)
        lines += [f"{line:<{room}}{first}", *(f"{'':<{room}}{more}" for more in rest)]
    return [cut(line, width) for line in lines]


_HEAD = ("ROUND", "BEGAN", "RAN", "GAP", "NODES", "WORKERS", "WHY")


def _rows(history: JobHistory) -> Iterable[tuple[str, ...]]:
    for each, gap_s in zip(history.rounds, history.gaps(), strict=True):
        ran = duration(history.end_of(each) - each.start_s) + (" ..." if history.live and each.end_s is None else "")
        began = clock(each.start_s, fine=True)
        yield str(each.number), began, ran, duration(gap_s), str(each.nodes), str(each.workers), reason_text(each)


def reason_text(one: Round) -> str:
    """Return the reason why the round began."""
    first = {"First": "the job began", "Resumed": "the job was resumed"}
    message = one_line(one.message)
    return message or first.get(one.cause, one.cause) or ("the job began" if one.number == 1 else "-")


def chart(history: JobHistory, *, width: int) -> list[str]:
    """Return rows of blocks, a row of marks for failures, and an axis."""
    rows = grouped(history)
    label = min(_LABEL, max([len(name) for name, _ in rows] + [8]))
    columns = max(10, width - label - 2)
    step_s = max(history.end_s - history.start_s, 1e-3) / columns
    lines = [f"{cut(name, label):<{label}}  {_blocks(history, rounds, columns, step_s)}" for name, rounds in rows]
    marks = _marks(history, columns, step_s)
    if marks.strip():
        lines.append(f"{'failures':<{label}}  {marks}".rstrip())
    end = clock(history.end_s)
    return [*lines, f"{'':<{label}}  {clock(history.start_s):<{max(8, columns - len(end))}}{end}"]


def grouped(history: JobHistory) -> list[tuple[str, Sequence[Round]]]:
    """Return names of nodes with the rounds that they were in; nodes with the same rounds share a name."""
    if not history.slots():
        return [("all nodes", history.rounds)]
    taken: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for slot in history.slots():
        taken[tuple(i for i, each in enumerate(history.rounds) if slot in set(each.slots))].append(slot)
    found: list[tuple[str, Sequence[Round]]] = [
        (f"{history.name}-{slots_text(slots)}", [history.rounds[i] for i in indices])
        for indices, slots in taken.items()
    ]
    if len(found) <= _MOST_ROWS:
        return found
    rest = {id(each): each for _, rounds in found[_MOST_ROWS - 1 :] for each in rounds}
    return [*found[: _MOST_ROWS - 1], (f"{len(found) - _MOST_ROWS + 1} more groups", list(rest.values()))]


def slots_text(slots: Sequence[int]) -> str:
    """Return `3` for one slot, or `[0-2,5]`."""
    text = format_slots(slots)
    return text if len(slots) == 1 else f"[{text}]"


def _blocks(history: JobHistory, rounds: Iterable[Round], columns: int, step_s: float) -> str:
    """Return the blocks of a row; a column is on if rounds ran for more than half of it."""
    share = [0.0] * columns
    for each in rounds:
        begin, end = each.start_s - history.start_s, history.end_of(each) - history.start_s
        for column in range(max(0, int(begin / step_s)), min(columns, int(end / step_s) + 1)):
            share[column] += max(0.0, min(end, (column + 1) * step_s) - max(begin, column * step_s))
    return "".join(_ON if covered > step_s / 2 else _OFF for covered in share)


def _marks(history: JobHistory, columns: int, step_s: float) -> str:
    marks = [" "] * columns
    for time_s, _ in history.failures():
        marks[min(columns - 1, max(0, int((time_s - history.start_s) / step_s)))] = _FAILED
    return "".join(marks)

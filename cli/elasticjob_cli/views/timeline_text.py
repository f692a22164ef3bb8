"""PURE: a story for the terminal: a line for each round, and a chart with a row for each group of nodes.

Nodes that took part in the same rounds share a row, so that five hundred of them are as readable as three.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from elasticjob_cli.views.job_history import Round, Story
from elasticjob_cli.views.text import align, clock, counted, cut, day, duration, one_line, wrapped

_ON, _OFF, _FAILED = "█", "·", "×"
_MOST_ROWS = 24
_LABEL = 24
_LEAST_WHY, _INDENT = 40, 7
"""Columns for the reason of a round, beside its numbers; and before it, below them."""


def timeline(told: Story, *, width: int) -> list[str]:
    """The lines; at most `width` columns each."""
    lines = [*wrapped(headline(told), width), f"from {day(told.start_s)} to {day(told.end_s)}", ""]
    if not told.rounds:
        return [*lines, "no round has run yet" if told.live else "no round ever ran"]
    lines += _table(told, width)
    lines += ["", *chart(told, width=width)]
    if not told.exact:
        lines += ["", "(from the job's events, to the second: its status keeps no rounds)"]
    return lines


def headline(told: Story) -> str:
    """Counts, and the share of time in rounds."""
    total_s = max(told.end_s - told.start_s, 1e-9)
    share = 100 * min(1.0, told.in_rounds_s / total_s)
    counts = f"{counted(told.restarts, 'restart')}, {counted(told.losses, 'node loss', 'node losses')}"
    last = told.rounds[-1].number if told.rounds else 0
    return f"{told.name} {told.phase}: round {last}, {counts}, {duration(total_s)}, {share:.1f} % of it in rounds"


def _table(told: Story, width: int) -> list[str]:
    """A line for each round; why it began goes on below itself, or stands below the numbers if it is narrow there."""
    rows = list(_rows(told))
    plain = align([_HEAD[:-1], *(row[:-1] for row in rows)], gap="  ")
    room = max(map(len, plain)) + 2
    if width - room < _LEAST_WHY and any(len(row[-1]) > width - room for row in rows):
        below = [
            [line, *(f"{'':<{_INDENT}}{more}" for more in wrapped(row[-1], width - _INDENT))]
            for line, row in zip(plain[1:], rows, strict=True)
        ]
        return [cut(line, width) for lines in ([plain[0]], *below) for line in lines]
    lines = [f"{plain[0]:<{room}}{_HEAD[-1]}"]
    for line, row in zip(plain[1:], rows, strict=True):
        first, *rest = wrapped(row[-1], width - room)
        lines += [f"{line:<{room}}{first}", *(f"{'':<{room}}{more}" for more in rest)]
    return [cut(line, width) for line in lines]


_HEAD = ("ROUND", "BEGAN", "RAN", "GAP", "NODES", "WORKERS", "WHY")


def _rows(told: Story) -> Iterable[tuple[str, ...]]:
    for each, gap_s in zip(told.rounds, told.gaps(), strict=True):
        ran = duration(told.end_of(each) - each.start_s) + (" ..." if told.live and each.end_s is None else "")
        began = clock(each.start_s, fine=told.exact)
        yield str(each.number), began, ran, duration(gap_s), str(each.nodes), str(each.workers), why(each)


def why(one: Round) -> str:
    """Why the round was opened."""
    first = {"First": "the job began", "Resumed": "the job was resumed"}
    said = one_line(one.message)
    return said or first.get(one.cause, one.cause) or ("the job began" if one.number == 1 else "-")


def chart(told: Story, *, width: int) -> list[str]:
    """Rows of blocks, a row of marks for failures, and an axis."""
    rows = grouped(told)
    label = min(_LABEL, max([len(name) for name, _ in rows] + [8]))
    columns = max(10, width - label - 2)
    step_s = max(told.end_s - told.start_s, 1e-3) / columns
    lines = [f"{cut(name, label):<{label}}  {_blocks(told, rounds, columns, step_s)}" for name, rounds in rows]
    marks = _marks(told, columns, step_s)
    if marks.strip():
        lines.append(f"{'failures':<{label}}  {marks}".rstrip())
    end = clock(told.end_s)
    return [*lines, f"{'':<{label}}  {clock(told.start_s):<{max(8, columns - len(end))}}{end}"]


def grouped(told: Story) -> list[tuple[str, Sequence[Round]]]:
    """Names of nodes and the rounds that they took part in, those with the same rounds together."""
    if not told.slots():
        return [("all nodes", told.rounds)]
    taken: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for slot in told.slots():
        taken[tuple(i for i, each in enumerate(told.rounds) if slot in set(each.slots))].append(slot)
    found: list[tuple[str, Sequence[Round]]] = [
        (f"{told.name}-{slots_text(slots)}", [told.rounds[i] for i in indices]) for indices, slots in taken.items()
    ]
    if len(found) <= _MOST_ROWS:
        return found
    rest = {id(each): each for _, rounds in found[_MOST_ROWS - 1 :] for each in rounds}
    return [*found[: _MOST_ROWS - 1], (f"{len(found) - _MOST_ROWS + 1} groups more", list(rest.values()))]


def slots_text(slots: Sequence[int]) -> str:
    """`3`, or `[0-2,5]`."""
    runs: list[list[int]] = []
    for slot in slots:
        if runs and slot == runs[-1][1] + 1:
            runs[-1][1] = slot
        else:
            runs.append([slot, slot])
    text = ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
    return text if len(slots) == 1 else f"[{text}]"


def _blocks(told: Story, rounds: Iterable[Round], columns: int, step_s: float) -> str:
    """A column is on when a round ran for more than half of it."""
    share = [0.0] * columns
    for each in rounds:
        begin, end = each.start_s - told.start_s, told.end_of(each) - told.start_s
        for column in range(max(0, int(begin / step_s)), min(columns, int(end / step_s) + 1)):
            share[column] += max(0.0, min(end, (column + 1) * step_s) - max(begin, column * step_s))
    return "".join(_ON if covered > step_s / 2 else _OFF for covered in share)


def _marks(told: Story, columns: int, step_s: float) -> str:
    marks = [" "] * columns
    for time_s, _ in told.failures():
        marks[min(columns - 1, max(0, int((time_s - told.start_s) / step_s)))] = _FAILED
    return "".join(marks)

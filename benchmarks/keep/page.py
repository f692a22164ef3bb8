"""docs/keep-numbers.md from a report: the machine, and a table for each question."""

from collections.abc import Sequence

from benchmarks.report.results import FLOOR, OURS, Report, Series, format_value, titled

_HEAD = """# Numbers of Keep

Written by `make bench-keep`; do not edit. The sides of a table took turns in one run on one machine. p50 and p99 are
samples that were measured; p99 of fewer than 100 samples is the worst. The floor is what the machine takes for the same
bytes without the product. [Steps in memory](keep.md) explains the words."""
_COLUMNS = ("what", "n", "p50", "p99", "target", "met", "floor")


def page(report: Report, titles: Sequence[tuple[str, str, Sequence[Series]]]) -> str:
    """Return the page; `titles` has the title of each part, a sentence about it, and its rows."""
    parts = [_HEAD, _machine(report)]
    if report.failed:
        parts += ["## Not measured", "\n".join(f"- `{what}`" for what in report.failed)]
    for title, sentence, series in titles:
        if series:
            parts += [f"## {title}", sentence, "\n".join(_table(series))]
    return "\n\n".join(parts) + "\n"


def _machine(report: Report) -> str:
    rows = [("began", report.began), *report.machine.items()]
    return "\n".join(["| | |", "| --- | --- |", *(f"| {name} | {value} |" for name, value in rows)])


def _table(series: Sequence[Series]) -> list[str]:
    floors = {titled(each): each for each in series if each.side == FLOOR}
    ours = [each for each in series if each.side == OURS]
    alone = [each for title, each in floors.items() if title not in {titled(one) for one in ours}]
    rows = [_row(each, floors.get(titled(each))) for each in ours] + [_row(each, None) for each in alone]
    return [_line(_COLUMNS), _line(["---"] * len(_COLUMNS)), *map(_line, rows)]


def _row(each: Series, floor: Series | None) -> list[str]:
    target = "" if each.target is None else format_value(each.target, each.unit)
    met = "" if each.target is None else "yes" if each.p50 <= each.target else "**no**"
    numbers = [format_value(value, each.unit) for value in (each.p50, each.p99)]
    return [titled(each), str(len(each.samples)), *numbers, target, met, format_value(floor.p50, "s") if floor else ""]


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"

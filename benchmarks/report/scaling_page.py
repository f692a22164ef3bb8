"""The tables of docs/scaling.md from a report; the text around them is written by hand.

A table is between `<!-- make bench: NAME -->` and `<!-- end -->`, and each run that publishes replaces it.
"""

import math
import re
from collections.abc import Sequence

from benchmarks.rendezvous import simulation
from benchmarks.rendezvous.fits import ENOUGH, power_law
from benchmarks.report import results
from benchmarks.report.results import FLOOR, OURS, Series

_TABLE = re.compile(r"(?P<begin><!-- make bench: (?P<name>\w+) -->\n).*?(?P<end><!-- end -->)", re.DOTALL)


def renewed(text: str, series: Sequence[Series]) -> str:
    """Return the page with the tables of this run; a table without a measurement remains as it was."""
    tables = {
        "rendezvous": measured(series, "rendezvous"),
        "planning": measured(series, "planning"),
        "operator": measured(series, "operator"),
        "simulated": simulation.report(series),
    }

    def table(found: re.Match[str]) -> str:
        lines = tables[found["name"]]
        return "".join([found["begin"], *(f"{line}\n" for line in lines), found["end"]]) if lines else found[0]

    return _TABLE.sub(table, text)


def measured(series: Sequence[Series], group: str) -> list[str]:
    """Return medians over the sizes, their growth, and the floor of the largest size: a row for each cost."""
    own = [each for each in series if each.group == group and each.size]
    sizes = sorted({each.size for each in own if each.side == OURS and each.size})
    if len(sizes) < ENOUGH:
        return []
    counted = results.counted(own[0])
    head = ["", *(f"{size:,} {counted}" if size == sizes[0] else f"{size:,}" for size in sizes), "fitted", "floor"]
    names = dict.fromkeys(each.name for each in own if each.side == OURS)
    rows = [_row(name, [each for each in own if each.name == name], sizes) for name in names]
    return [_cells(head), _cells(["---"] * len(head)), *map(_cells, rows)]


def _row(name: str, own: Sequence[Series], sizes: Sequence[int]) -> list[str]:
    ours = {each.size or 0: each for each in own if each.side == OURS}
    floor = max((each for each in own if each.side == FLOOR), key=lambda each: each.size or 0, default=None)
    points = [(float(size), each.p50) for size, each in ours.items() if 0 < each.p50 < math.inf]
    return [
        name,
        *(results.format_value(ours[size].p50, ours[size].unit) if size in ours else "" for size in sizes),
        f"N^{power_law(points).exponent:.2f}" if len(points) >= ENOUGH else "",
        "" if floor is None else results.format_value(floor.p50, floor.unit),
    ]


def _cells(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"

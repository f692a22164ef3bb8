"""Plots of a report: `python -m benchmarks.report.plots REPORT.json FOLDER`, under a Python with matplotlib.

Bars are medians on a logarithmic scale, their whiskers reach to p99. A bar without a value reaches to the edge, with a
note. Measurements for several numbers of nodes or jobs are a line over them. Targets are black marks.
"""

import math
import sys
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from benchmarks.recovery.next_step.parts import PARTS
from benchmarks.report import results
from benchmarks.report.results import FLOOR, OURS, Series

_OURS, _FLOOR = "#0b6e4f", "#9aa5b1"
_PEERS = ("#d1495b", "#edae49", "#5b8e7d")
_WIDTH = 9.0
_COLUMNS = 3
"""Panels in a row."""


def _color(side: str, peers: Sequence[str]) -> str:
    if side == OURS:
        return _OURS
    return _FLOOR if side == FLOOR else _PEERS[peers.index(side) % len(_PEERS)]


def bars(group: str, series: Sequence[Series], path: Path) -> None:
    """Draw a bar for each series, those of one name together; a panel for each unit."""
    units = list(dict.fromkeys(each.unit for each in series))
    counts = [sum(each.unit == unit for each in series) for unit in units]
    figure, panels = plt.subplots(
        len(units),
        figsize=(_WIDTH, 0.9 * len(units) + 0.36 * len(series)),
        height_ratios=[count + 1 for count in counts],
        layout="constrained",
        squeeze=False,
    )
    peers = _peers(series)
    for unit, axes in zip(units, panels[:, 0], strict=True):
        _bars(axes, [each for each in series if each.unit == unit], peers)
        axes.set_xlabel(f"{group}, {unit}: median, whisker to p99, black mark: target")
    _save(figure, path)


def _peers(series: Sequence[Series]) -> list[str]:
    return sorted({each.side for each in series} - {OURS, FLOOR})


def _bars(axes: Axes, series: Sequence[Series], peers: Sequence[str]) -> None:
    finite = [value for each in series for value in (each.p50, each.p99) if 0 < value < math.inf] or [1.0]
    low, high = min(finite) / 2, max(finite) * 4
    for row, each in enumerate(series):
        _bar(axes, each, row, _color(each.side, peers), high)
        if each.target:
            axes.plot([each.target], [row], marker="|", markersize=16, markeredgewidth=2, color="black")
    names = [each.name if row == 0 or series[row - 1].name != each.name else "" for row, each in enumerate(series)]
    axes.set_yticks(range(len(series)), [f"{name}   {each.side}" for name, each in zip(names, series, strict=True)])
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    _in_unit(axes.xaxis, series[0].unit, 1)
    axes.grid(axis="x", alpha=0.3)


def _bar(axes: Axes, each: Series, row: int, color: str, high: float) -> None:
    value = min(each.p50, high)
    axes.barh(row, value, color=color, height=0.7)
    if math.isinf(each.p50):
        axes.text(high / 1.3, row, "not within the wait", ha="right", va="center", color="white", fontsize=8)
        return
    axes.plot([each.p50, min(each.p99, high)], [row, row], color="black", linewidth=1)
    axes.text(min(each.p99, high) * 1.08, row, results.format_value(each.p50, each.unit), va="center", fontsize=8)


def stacks(series: Sequence[Series], path: Path) -> None:
    """Draw the medians of the parts of each row, one after the other; below that, the rows of ours in their own scale.

    The name of a series is its row and its part, with a colon between them.
    """
    rows = list(dict.fromkeys((each.name.partition(": ")[0], each.side) for each in series))
    own = [row for row in rows if row[1] == OURS]
    figure, panels = plt.subplots(
        2,
        figsize=(_WIDTH, 2.2 + 0.36 * (len(rows) + len(own))),
        height_ratios=[len(rows) + 1, len(own) + 1],
        layout="constrained",
    )
    measured = {each.name.partition(": ")[2] for each in series}
    parts = [part for part in PARTS if part in measured]
    for axes, shown in zip(panels, (rows, own), strict=True):
        _stack(axes, series, shown, parts)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, fontsize=8, ncols=5, loc="outside upper center")
    _save(figure, path)


def _stack(axes: Axes, series: Sequence[Series], rows: Sequence[tuple[str, str]], parts: Sequence[str]) -> None:
    medians = {(*each.name.partition(": ")[::2], each.side): each.p50 for each in series}
    ends = [0.0] * len(rows)
    for place, part in enumerate(parts):
        widths = [medians.get((name, part, side), 0.0) for name, side in rows]
        axes.barh(range(len(rows)), widths, left=ends, height=0.7, label=part, color=plt.get_cmap("tab10")(place))
        ends = [end + width for end, width in zip(ends, widths, strict=True)]
    for row, end in enumerate(ends):
        axes.text(end, row, f" {results.format_value(end, 's')}", va="center", fontsize=8)
    axes.set_yticks(range(len(rows)), [f"{name}   {side}" for name, side in rows], fontsize=8)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.15 * max(ends))
    axes.set_xlabel("s, medians of the parts")
    axes.grid(axis="x", alpha=0.3)


def lines(series: Sequence[Series], path: Path) -> None:
    """Draw medians over the number of nodes or jobs, a panel for each name; missing values have no point."""
    names = list(dict.fromkeys(each.name for each in series))
    columns = min(len(names), _COLUMNS)
    rows = math.ceil(len(names) / columns)
    figure, panels = plt.subplots(rows, columns, figsize=(_WIDTH, 3.4 * rows), layout="constrained", squeeze=False)
    for name, axes in zip(names, panels.flat, strict=False):
        _lines(axes, [each for each in series if each.name == name], _peers(series))
        axes.set_xlabel(results.counted(series[0]))
    for axes in panels.flat[len(names) :]:
        axes.remove()
    _save(figure, path)


def _lines(axes: Axes, own: Sequence[Series], peers: Sequence[str]) -> None:
    for side in dict.fromkeys(each.side for each in own):
        points = sorted((each.size or 0, each.p50) for each in own if each.side == side and 0 < each.p50 < math.inf)
        axes.plot(*_columns(points), marker="o", color=_color(side, peers), label=side)
    targets = [(each.size or 0, each.target) for each in own if each.target]
    if targets:
        axes.plot(*_columns(targets), marker="_", markersize=14, linestyle="", color="black", label="target")
    axes.set_xscale("log")
    positive = any(0 < each.p50 < math.inf for each in own)
    axes.set_yscale("log" if positive else "linear")
    axes.set_xticks([each.size for each in own], [str(each.size) for each in own])
    axes.xaxis.set_minor_locator(NullLocator())
    if positive:
        _in_unit(axes.yaxis, own[0].unit, 1, 2, 5)
    axes.set_title(own[0].name, fontsize=9, wrap=True)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)


def _columns(points: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [x for x, _ in points], [y for _, y in points]


def _in_unit(axis: Axis, unit: str, *digits: int) -> None:
    axis.set_major_locator(LogLocator(subs=digits))
    axis.set_major_formatter(FuncFormatter(lambda value, _: results.format_value(value, unit)))
    axis.set_minor_locator(NullLocator())


def _save(figure: plt.Figure, path: Path) -> None:
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def draw(series: Sequence[Series], folder: Path) -> list[str]:
    """Write a file for each group (the costs of a rendezvous apart from time have only a table); return failures."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn = [each for each in series if not (each.group == "rendezvous" and ":" in each.name)]
    faults = []
    for group in dict.fromkeys(each.group for each in drawn):
        own = [each for each in drawn if each.group == group]
        several = [each for each in own if len({other.size for other in own if other.name == each.name}) > 1]
        path = folder / f"{group}.svg"
        try:
            if group.endswith("-parts"):
                stacks(own, path)
            elif several:
                lines(several, path)
            else:
                bars(group, own, path)
        except (ValueError, RuntimeError) as error:
            faults.append(f"no plot of {group}: {error}")
    return faults


def main() -> None:
    """REPORT FOLDER."""
    report, folder = sys.argv[1:]
    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "elasticjob"
    if faults := draw(results.load(Path(report)).series, Path(folder)):
        sys.exit("\n".join(faults))


if __name__ == "__main__":
    main()

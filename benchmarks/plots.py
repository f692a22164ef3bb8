"""Plots of a report, one a group: `python -m benchmarks.plots REPORT.json FOLDER`, under a Python with matplotlib.

Bars are medians on a logarithmic scale, their whiskers reach to p99; a bar that never came reaches to the edge and
says so. What was measured for several numbers of nodes is a line over them. Targets are black marks.
"""

import math
import sys
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib import pyplot as plt
from matplotlib.axis import Axis
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from benchmarks import results
from benchmarks.results import FLOOR, OURS, Series

_OURS, _FLOOR = "#0b6e4f", "#9aa5b1"
_PEERS = ("#d1495b", "#edae49", "#5b8e7d")
_WIDTH = 9.0


def _color(side: str, peers: Sequence[str]) -> str:
    if side == OURS:
        return _OURS
    return _FLOOR if side == FLOOR else _PEERS[peers.index(side) % len(_PEERS)]


def bars(group: str, series: Sequence[Series], path: Path) -> None:
    """A bar a series, those of one name together."""
    peers = sorted({each.side for each in series} - {OURS, FLOOR})
    finite = [value for each in series for value in (each.p50, each.p99) if 0 < value < math.inf]
    low, high = min(finite) / 2, max(finite) * 4
    figure, axes = plt.subplots(figsize=(_WIDTH, 0.9 + 0.36 * len(series)), layout="constrained")
    for row, each in enumerate(series):
        _bar(each, row, _color(each.side, peers), high)
        if each.target:
            axes.plot([each.target], [row], marker="|", markersize=16, markeredgewidth=2, color="black")
    names = [each.name if row == 0 or series[row - 1].name != each.name else "" for row, each in enumerate(series)]
    axes.set_yticks(range(len(series)), [f"{name}   {each.side}" for name, each in zip(names, series, strict=True)])
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    _in_seconds(axes.xaxis, 1)
    axes.set_xlabel(f"{group}, {series[0].unit}: median, whisker to p99, black mark: target")
    axes.grid(axis="x", alpha=0.3)
    _save(figure, path)


def _bar(each: Series, row: int, color: str, high: float) -> None:
    value = min(each.p50, high)
    plt.barh(row, value, color=color, height=0.7)
    if math.isinf(each.p50):
        plt.text(high / 1.3, row, "not within the wait", ha="right", va="center", color="white", fontsize=8)
        return
    plt.plot([each.p50, min(each.p99, high)], [row, row], color="black", linewidth=1)
    plt.text(min(each.p99, high) * 1.08, row, results.shown(each.p50, each.unit), va="center", fontsize=8)


def lines(group: str, series: Sequence[Series], path: Path) -> None:
    """Medians over the number of nodes, a panel a name."""
    names = list(dict.fromkeys(each.name for each in series))
    figure, panels = plt.subplots(1, len(names), figsize=(_WIDTH, 3.6), layout="constrained", squeeze=False)
    for name, axes in zip(names, panels[0], strict=True):
        own = [each for each in series if each.name == name]
        for side in dict.fromkeys(each.side for each in own):
            points = sorted((each.size or 0, each.p50) for each in own if each.side == side)
            axes.plot(*zip(*points, strict=True), marker="o", color=_color(side, []), label=side)
        targets = [(each.size, each.target) for each in own if each.target]
        if targets:
            axes.plot(
                *zip(*targets, strict=True), marker="_", markersize=14, linestyle="", color="black", label="target"
            )
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xticks([each.size for each in own], [str(each.size) for each in own])
        axes.xaxis.set_minor_locator(NullLocator())
        _in_seconds(axes.yaxis, 1, 2, 5)
        axes.set_title(name, fontsize=10)
        axes.set_xlabel("nodes")
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8)
    panels[0][0].set_ylabel(f"{group}, s")
    _save(figure, path)


def _in_seconds(axis: Axis, *digits: int) -> None:
    axis.set_major_locator(LogLocator(subs=digits))
    axis.set_major_formatter(FuncFormatter(lambda value, _: results.shown(value, "s")))
    axis.set_minor_locator(NullLocator())


def _save(figure: plt.Figure, path: Path) -> None:
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def draw(series: Sequence[Series], folder: Path) -> None:
    """A file a group of seconds; processor times have their table only."""
    folder.mkdir(parents=True, exist_ok=True)
    timed = [each for each in series if each.unit == "s" and ":" not in each.name.replace("etcd: put", "")]
    for group in dict.fromkeys(each.group for each in timed):
        own = [each for each in timed if each.group == group]
        sized = [each for each in own if each.size is not None]
        if group == "planning":
            continue  # processor times again
        if sized:
            several = [each for each in sized if len({other.size for other in sized if other.name == each.name}) > 1]
            lines(group, several or sized, folder / f"{group}.svg")
        else:
            bars(group, own, folder / f"{group}.svg")


def main() -> None:
    """REPORT FOLDER."""
    report, folder = sys.argv[1:]
    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "elasticjob"
    draw(results.load(Path(report)).series, Path(folder))


if __name__ == "__main__":
    main()

"""The growth of a cost with the number of nodes, fitted to the measurements."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.report.results import Series

ENOUGH = 3
"""Sizes that a fit needs."""


@dataclass(frozen=True, slots=True)
class PowerLaw:
    """`factor` x N ** `exponent`."""

    factor: float
    exponent: float

    def at(self, size: float) -> float:
        """Return the cost for so many."""
        return float(self.factor * size**self.exponent)

    def __str__(self) -> str:
        return f"{self.factor:.2g} x N^{self.exponent:.2f}"


@dataclass(frozen=True, slots=True)
class Line:
    """`base` + `slope` x N: one part that is constant, and one for every other node."""

    base: float
    slope: float

    def at(self, size: float) -> float:
        """Return the cost for so many."""
        return self.base + self.slope * size


def straight_line(points: Sequence[tuple[float, float]]) -> Line:
    """Return the line with the least squares; two different N at least."""
    mean_x = sum(size for size, _ in points) / len(points)
    mean_y = sum(cost for _, cost in points) / len(points)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)
    return Line(mean_y - slope * mean_x, slope)


def power_laws(series: Sequence[Series]) -> list[str]:
    """Return the growth of each cost with the number of nodes: a line for each that was measured at three sizes."""
    lines = []
    for name, side in dict.fromkeys((each.name, each.side) for each in series):
        points = [(each.size or 0, each.p50) for each in series if (each.name, each.side) == (name, side)]
        if len(points) >= ENOUGH and all(0 < value < math.inf for _, value in points):
            lines.append(f"{name:<50} {side:<6} {power_law(points)}")
    return lines


def power_law(points: Sequence[tuple[float, float]]) -> PowerLaw:
    """Return the straight line through (log N, log cost) of least squares; two different N at least, no cost of 0."""
    line = straight_line([(math.log(size), math.log(cost)) for size, cost in points])
    return PowerLaw(math.exp(line.base), line.slope)

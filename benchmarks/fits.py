"""PURE: how a cost grows with the number of nodes, fitted to what was measured."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.results import Series

_ENOUGH = 3


@dataclass(frozen=True, slots=True)
class PowerLaw:
    """`factor` x N ** `exponent`."""

    factor: float
    exponent: float

    def at(self, size: float) -> float:
        """The cost for so many."""
        return float(self.factor * size**self.exponent)

    def __str__(self) -> str:
        return f"{self.factor:.2g} x N^{self.exponent:.2f}"


def power_laws(series: Sequence[Series]) -> list[str]:
    """How each cost in seconds grows with the number of nodes: a line for each that was measured at three sizes."""
    lines = []
    for name, side in dict.fromkeys((each.name, each.side) for each in series if each.unit == "s"):
        points = [(each.size or 0, each.p50) for each in series if (each.name, each.side) == (name, side)]
        if len(points) >= _ENOUGH and all(0 < value < math.inf for _, value in points):
            lines.append(f"{name:<50} {side:<6} {power_law(points)}")
    return lines


def power_law(points: Sequence[tuple[float, float]]) -> PowerLaw:
    """The straight line through (log N, log cost) with the least squares; two different N at least, no cost of 0."""
    logs = [(math.log(size), math.log(cost)) for size, cost in points]
    mean_x = sum(x for x, _ in logs) / len(logs)
    mean_y = sum(y for _, y in logs) / len(logs)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in logs) / sum((x - mean_x) ** 2 for x, _ in logs)
    return PowerLaw(math.exp(mean_y - slope * mean_x), slope)

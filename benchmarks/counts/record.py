"""One count, and how far above its baseline it may be before it is a regression."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Count:
    """A number that should not grow."""

    name: str
    value: float
    tolerance: float = 0.1
    """Share of the baseline."""
    slack: float = 0.0
    """In addition: what may come by chance."""

    def limit(self, baseline: float) -> float:
        """The most that is no regression."""
        return baseline * (1 + self.tolerance) + self.slack

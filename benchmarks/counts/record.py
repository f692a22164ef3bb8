"""One count, and how far above its baseline it may be before it is a regression; and a count that cannot be taken."""

import shutil
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
    of_interpreter: bool = False
    """Another Python, or another build of it, does the same work with another number of them."""

    def limit(self, baseline: float) -> float:
        """The most that is no regression."""
        return baseline * (1 + self.tolerance) + self.slack


class NotTaken(Exception):
    """What it takes to count is not here; says what, and what cures it."""


def tool(name: str) -> str:
    """Where a program is that counts; NotTaken if it is nowhere."""
    if found := shutil.which(name):
        return found
    raise NotTaken(f"there is no {name} in PATH; hack/counting-tools installs it where apt-get and root are")

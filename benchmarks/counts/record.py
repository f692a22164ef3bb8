"""One count with the limit above which it is a regression; and the error of a count that cannot be taken."""

import shutil
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Count:
    """A number that should not grow."""

    name: str
    value: float
    tolerance: float = 0.1
    """A share of the baseline."""
    slack: float = 0.0
    """In addition: variation by chance."""
    of_interpreter: bool = False
    """Another Python, or another build of it, does the same work with another number of them."""

    def limit(self, baseline: float) -> float:
        """Return the largest value that is no regression."""
        return baseline * (1 + self.tolerance) + self.slack


class NotTaken(Exception):
    """A tool of the counter is missing; the message has its name and the cure."""


def tool(name: str) -> str:
    """Return the path of a tool; raise NotTaken if it is missing."""
    if found := shutil.which(name):
        return found
    raise NotTaken(f"there is no {name} in PATH; hack/counting-tools installs it where apt-get and root are")

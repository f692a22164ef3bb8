"""The names under which a script publishes: `step-120` alone is a whole step, `step-120.3-of-8` is part 3 of 8.

All other names in the directory belong to the script. A name that is almost one of these is an error, which the
script's author needs to know.
"""

import re
from dataclasses import dataclass

from elasticjob_api.errors import RecordError
from elasticjob_api.kept_steps import KeptStep, Lineage

_PREFIX = "step-"
_LIKE = re.compile(r"steps?[-_. ]?[0-9]", re.IGNORECASE)
_NUMBER = re.compile(r"[0-9]+")
_NAME = re.compile(r"step-(0|[1-9][0-9]{0,14})(?:\.(0|[1-9][0-9]{0,4})-of-([1-9][0-9]{0,4}))?")


@dataclass(frozen=True, slots=True)
class StepName:
    """One published part: its step's number, its index, and how many parts the step has."""

    number: int
    index: int = 0
    parts: int = 1

    def step_of(self, lineage: Lineage) -> KeptStep:
        """Return the step of this lineage that the part belongs to; raise RecordError if it has too many parts."""
        return KeptStep(lineage, self.number, self.parts)


def is_like_step_name(name: str) -> bool:
    """Whether a script may mean to publish under this name: as `step_5`, which is none."""
    return name.startswith(_PREFIX) or bool(_LIKE.match(name))


def is_step_name(name: str) -> bool:
    """Whether a script publishes under this name."""
    try:
        parse_step_name(name)
    except RecordError:
        return False
    return True


def is_of_other_number(name: str, other: str) -> bool:
    """Whether two names that are like those of steps have different numbers."""
    return _NUMBER.findall(name)[:1] != _NUMBER.findall(other)[:1]


def parse_step_name(name: str) -> StepName:
    """Return the part that a script publishes under this name; raise RecordError if the form is broken."""
    if not (found := _NAME.fullmatch(name)):
        raise RecordError(f"{name!r:.80} is neither step-<N> nor step-<N>.<i>-of-<m>, without leading zeros")
    parsed = StepName(int(found[1]), int(found[2] or 0), int(found[3] or 1))
    KeptStep(Lineage(0, "0"), parsed.number, parsed.parts)
    if parsed.index >= parsed.parts:
        raise RecordError(f"{name!r:.80} counts from 0: the last of {parsed.parts} parts is {parsed.parts - 1}")
    return parsed

"""The committed numbers of violations by file and rule, which may only fall."""

import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hack.prose.rules import Rule

Counts = Mapping[str, Mapping[Rule, int]]
"""File → rule → number of violations; a missing number is 0."""

_HEAD = """# Violations that hack/prose-lint still allows, by file and rule. A file that is not here has none.
# Numbers only fall: `hack/prose-lint --update` lowers them. Move a line by hand when its file moves.
"""


@dataclass(frozen=True)
class Difference:
    """A file whose number for a rule is not the one of the baseline."""

    file: str
    rule: Rule
    found: int
    allowed: int

    @property
    def is_above(self) -> bool:
        """True if there are new violations."""
        return self.found > self.allowed


def parse(text: str) -> Counts:
    """Return the numbers of a baseline.

    Raises:
        tomllib.TOMLDecodeError: it is not TOML.
        ValueError: it names an unknown rule.
    """
    return {file: {Rule(rule): number for rule, number in row.items()} for file, row in tomllib.loads(text).items()}


def encode(counts: Counts) -> str:
    """Return the text of a baseline, a line for each file that has violations."""
    return _HEAD + "".join(f'"{file}" = {_row(row)}\n' for file, row in sorted(counts.items()) if any(row.values()))


def _row(row: Mapping[Rule, int]) -> str:
    return "{ " + ", ".join(f"{rule} = {row[rule]}" for rule in sorted(row) if row[rule]) + " }"


def differences(found: Counts, allowed: Counts) -> list[Difference]:
    """Return where two sets of numbers differ, by file and rule."""
    pairs = ((file, rule) for file in sorted({*found, *allowed}) for rule in Rule)
    compared = (
        Difference(file, rule, _number(found, file, rule), _number(allowed, file, rule)) for file, rule in pairs
    )
    return [one for one in compared if one.found != one.allowed]


def lowered(found: Counts, allowed: Counts) -> Counts:
    """Return the baseline with each number that has fallen; none rises."""
    return {
        file: {rule: min(number, _number(found, file, rule)) for rule, number in row.items()}
        for file, row in allowed.items()
    }


def totals(counts: Iterable[Mapping[Rule, int]]) -> Counter[Rule]:
    """Return the sum for each rule."""
    total: Counter[Rule] = Counter()
    for row in counts:
        total.update(row)
    return total


def _number(counts: Counts, file: str, rule: Rule) -> int:
    return counts.get(file, {}).get(rule, 0)

"""The errors of a script in publishing: a sentence for the first of each kind in a round. No I/O.

A script repeats its error at each step, and a hostile one makes any number of them.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from elasticjob_api.kept_steps import KeptStep, Lineage


class ScriptErrorKind(Enum):
    """The kind of an error."""

    NAME = "a name that is almost that of a step"
    IN_PLACE = "a directory that was made under its name, and not renamed to it"
    FILE = "a file in the place of a directory"
    LOWER = "a number that is lower than one before"
    AGAIN = "a part that was published before"
    """The first one is kept, so this is only reported."""
    MISSING = "a part that no node has published"


@dataclass(frozen=True, slots=True)
class _Error:
    lineage: Lineage
    sentence: str
    taken: KeptStep | None
    """The newest step that had been taken before."""

    def is_over(self, committed: KeptStep | None) -> bool:
        """Return whether a step was committed that was taken after this error."""
        if committed is None or committed.lineage < self.lineage:
            return False
        return self.taken is None or committed > self.taken


class ScriptErrors:
    """The errors of the script whose steps are in one volume."""

    def __init__(self, report: Callable[[str], None] = lambda _: None) -> None:
        """`report` gets one sentence for each kind of error in a round."""
        self._report = report
        self._known: set[tuple[Lineage, ScriptErrorKind]] = set()
        self._taken: KeptStep | None = None
        self._last: _Error | None = None
        self._lock = threading.Lock()

    def note(self, lineage: Lineage, kind: ScriptErrorKind, sentence: str) -> None:
        """Report this error of a round, unless one of its kind was reported; called from any thread."""
        with self._lock:
            if (lineage, kind) in self._known or (
                kind is ScriptErrorKind.AGAIN and (lineage, ScriptErrorKind.LOWER) in self._known
            ):
                return  # numbers that have fallen come to the highest one again
            self._known = {each for each in self._known if each[0] == lineage} | {(lineage, kind)}
            if kind is not ScriptErrorKind.AGAIN:
                self._last = _Error(lineage, sentence, self._taken)
        self._report(sentence)

    def note_taken(self, step: KeptStep) -> None:
        """Take in that a part of this step was taken."""
        self._taken = step if self._taken is None else max(step, self._taken)

    def trouble(self, committed: KeptStep | None) -> str:
        """Return the last error that costs steps; empty once a step is committed that was taken after it."""
        last = self._last
        return "" if last is None or last.is_over(committed) else last.sentence

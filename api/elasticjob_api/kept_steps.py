"""The names of steps that Keep holds in memory: lineages, steps, their parts, and the history of a training.

| what | text |
| --- | --- |
| lineage | `<round>.<nonce>` |
| step | `<round>.<nonce>.<number>.<parts>` |
| part indices of a step | `0-3,5` |
| history | `7.<nonce>.*,6.<nonce>.120` |
| persisted step | `<run>.<round>.<nonce>.<number>.<parts>` |

No text that is read here leaves a directory when a path is made of it: a nonce has neither dots nor slashes. No value
can be built that its text cannot express; both ways raise RecordError.
"""

import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from elasticjob_api.errors import RecordError

PART_LIMIT = 65_536
"""The most parts that a step may have."""
STEP_NUMBER_LIMIT = 10**15
"""All step numbers are lower."""
ROUND_LIMIT = 10**10
"""All rounds are lower."""
HISTORY_LIMIT = 64
"""The most entries of a history that are read; the leader keeps fewer."""

_NUMBER = re.compile(r"0|[1-9][0-9]{0,14}")
_NONCE = re.compile(r"[0-9A-Za-z_-]{1,64}")
_RANGE = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")
_ANY = "*"


@dataclass(frozen=True, slots=True, order=True)
class Lineage:
    """The active state, by its round and nonce, in which a step was written; ordered by round."""

    round: int
    nonce: str

    def __post_init__(self) -> None:
        """Raise RecordError if the text could not be read again."""
        if not 0 <= self.round < ROUND_LIMIT:
            raise RecordError(f"lineage has round {self.round!r:.40}; rounds are below {ROUND_LIMIT}")
        if not _NONCE.fullmatch(self.nonce):
            raise RecordError(f"lineage has nonce {self.nonce!r:.80}; a nonce has letters and digits, 64 at most")

    def __str__(self) -> str:
        """Return `<round>.<nonce>`."""
        return f"{self.round}.{self.nonce}"

    @classmethod
    def parse(cls, text: str) -> "Lineage":
        """Return the lineage that `str` wrote; raise RecordError for other text."""
        round_, _, nonce = text.partition(".")
        return cls(parse_number(round_, "round"), nonce)


@dataclass(frozen=True, slots=True, order=True)
class KeptStep:
    """One step of one lineage, in `parts` parts; ordered by the lineage's round, then by number."""

    lineage: Lineage
    number: int
    parts: int

    def __post_init__(self) -> None:
        """Raise RecordError if the text could not be read again."""
        if not 0 <= self.number < STEP_NUMBER_LIMIT:
            raise RecordError(f"step has number {self.number!r:.40}; numbers are below {STEP_NUMBER_LIMIT}")
        if not 1 <= self.parts <= PART_LIMIT:
            raise RecordError(f"step {self.number} has {self.parts!r:.40} parts; a step has 1 to {PART_LIMIT}")

    def __str__(self) -> str:
        """Return `<round>.<nonce>.<number>.<parts>`."""
        return f"{self.lineage}.{self.number}.{self.parts}"

    @classmethod
    def parse(cls, text: str) -> "KeptStep":
        """Return the step that `str` wrote; raise RecordError for other text."""
        words = text.split(".")
        if len(words) != len(("round", "nonce", "number", "parts")):
            raise RecordError(f"step {text!r:.120} is not <round>.<nonce>.<number>.<parts>")
        lineage = Lineage(parse_number(words[0], "round"), words[1])
        return cls(lineage, parse_number(words[2], "step"), parse_number(words[3], "count of parts"))


Holdings = Mapping[KeptStep, frozenset[int]]
"""Which parts of which steps one node has whole, by their indices."""


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """The steps of one lineage up to `highest`; all of them if it is None."""

    lineage: Lineage
    highest: int | None

    def __post_init__(self) -> None:
        """Raise RecordError if the text could not be read again."""
        if self.highest is not None and not 0 <= self.highest < STEP_NUMBER_LIMIT:
            raise RecordError(f"history has step {self.highest!r:.40}; numbers are below {STEP_NUMBER_LIMIT}")

    def __str__(self) -> str:
        """Return `<round>.<nonce>.<highest>`, with a star for all steps."""
        return f"{self.lineage}.{_ANY if self.highest is None else self.highest}"

    @classmethod
    def parse(cls, text: str) -> "HistoryEntry":
        """Return the entry that `str` wrote; raise RecordError for other text."""
        lineage, _, highest = text.rpartition(".")
        return cls(Lineage.parse(lineage), None if highest == _ANY else parse_number(highest, "step"))


@dataclass(frozen=True, slots=True)
class History:
    """The lineages that the present training descends from, newest first; each is there once."""

    entries: tuple[HistoryEntry, ...] = ()

    def __post_init__(self) -> None:
        """Raise RecordError if there are too many entries, or two of one lineage."""
        if len(self.entries) > HISTORY_LIMIT:
            raise RecordError(f"history has {len(self.entries)} entries; {HISTORY_LIMIT} are the most")
        if len({entry.lineage for entry in self.entries}) < len(self.entries):
            raise RecordError(f"history {self!s:.200} names a lineage twice")

    def is_alive(self, step: KeptStep) -> bool:
        """Return whether the present training descends from this step."""
        entry = next((entry for entry in self.entries if entry.lineage == step.lineage), None)
        return entry is not None and (entry.highest is None or step.number <= entry.highest)

    def with_lineage(self, lineage: Lineage) -> "History":
        """Return the history of a training that went on in this lineage; its oldest entries make room."""
        older = tuple(entry for entry in self.entries if entry.lineage != lineage)
        return History((HistoryEntry(lineage, None), *older[: HISTORY_LIMIT - 1]))

    def followed_by(self, older: "History") -> "History":
        """Return the entries of both; of a lineage that both have, that of this one."""
        known = {entry.lineage for entry in self.entries}
        further = (entry for entry in older.entries if entry.lineage not in known)
        return History((*self.entries, *further)[:HISTORY_LIMIT])

    def __str__(self) -> str:
        """Return the entries with commas; an empty text for none."""
        return ",".join(str(entry) for entry in self.entries)

    @classmethod
    def parse(cls, text: str) -> "History":
        """Return the history that `str` wrote; raise RecordError for other text."""
        words = text.split(",", HISTORY_LIMIT) if text else ()
        return cls(tuple(HistoryEntry.parse(word) for word in words))


@dataclass(frozen=True, slots=True)
class PersistedStep:
    """A step that is whole in the shared directory, and the run that wrote it there."""

    run: str
    step: KeptStep

    def __post_init__(self) -> None:
        """Raise RecordError if the text could not be read again."""
        if not _NONCE.fullmatch(self.run):
            raise RecordError(f"run {self.run!r:.80} is not of letters and digits, 64 at most")

    def __str__(self) -> str:
        """Return `<run>.<round>.<nonce>.<number>.<parts>`."""
        return f"{self.run}.{self.step}"

    @classmethod
    def parse(cls, text: str) -> "PersistedStep":
        """Return the step that `str` wrote; raise RecordError for other text."""
        run, _, step = text.partition(".")
        return cls(run, KeptStep.parse(step))


def format_parts(indices: Iterable[int]) -> str:
    """Return these indices of parts in ascending order, with consecutive ones as a range: `0-3,5`."""
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in _runs(sorted(indices)))


@functools.lru_cache(maxsize=16)
def parse_parts(text: str, parts: int) -> frozenset[int]:
    """Return the indices in `text` of a step with this many parts.

    Raise RecordError unless they ascend, are below `parts`, and are one at least.
    """
    # Cached: after a restore each of a thousand nodes has the same thousand parts. They share one set. The cache is
    # small, because a text of a few bytes may name 65,536 parts, which need 4 MB.
    indices: list[int] = []
    for word in text.split(","):
        if not (found := _RANGE.fullmatch(word)):
            raise RecordError(f"parts {text!r:.60} are not indices and ranges such as 0-3,5")
        first, last = int(found[1]), int(found[2] or found[1])
        if not (indices[-1] if indices else -1) < first <= last < parts:
            raise RecordError(f"parts {word!r} do not ascend below {parts}")
        indices += range(first, last + 1)
    return frozenset(indices)


def parse_number(text: str, what: str) -> int:
    """Return the number in `text`; raise RecordError, which names `what` it is, for other text."""
    if not _NUMBER.fullmatch(text):
        raise RecordError(f"{what} {text!r:.60} is not a number without leading zeros")
    return int(text)


def _runs(indices: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Return the first and the last index of each run of consecutive ones."""
    runs: list[list[int]] = []
    for index in indices:
        if runs and index <= runs[-1][1] + 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    return ((first, last) for first, last in runs)

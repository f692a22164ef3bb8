"""Slots as text, in rank order: consecutive slots are a range, as in `0-3,5,4`."""

import re
from collections.abc import Iterable, Iterator

from elasticjob_api.keys import SLOT_LIMIT

_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")


def format_slots(slots: Iterable[int]) -> str:
    """Return the text."""
    runs: list[list[int]] = []
    for slot in slots:
        if runs and slot == runs[-1][1] + 1:
            runs[-1][1] = slot
        else:
            runs.append([slot, slot])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def parse_slots(text: str, *, highest: int = SLOT_LIMIT - 1) -> Iterator[int]:
    """Yield the slots in the text, up to `highest`; parts that cannot be parsed are skipped."""
    for part in text.split(","):
        if found := _RANGE.fullmatch(part):
            first, last = int(found[1]), int(found[2] or found[1])
            yield from range(first, min(last, highest) + 1)

"""PURE: the line on stderr that tells why a worker ended, though libraries wrote more after it.

Python writes the exception last; but at its exit torch warns of a process group that was not destroyed, and
multiprocessing of semaphores that leaked. Who fails because of a peer is known by its last words, so these must not be
taken for them. Only lines that are surely no more than a warning are passed over.
"""

import re

MOST_CHARACTERS = 1024

_WARNING = re.compile(
    r"(\[rank\d+\]:)?\[[IW]\d{4} [\d:.]+ \S+:\d+\]"  # as c10 writes what is no error
    r"|\S+:\d+: \w*Warning: |\s+warnings\.warn\("  # as Python does, with the line of the program that it belongs to
    r"|\s*$"
)


def last_words(text: str) -> str:
    """The last line that is no warning, cut; else the last one that says something; else nothing."""
    lines = [line for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if not _WARNING.match(line)]
    return (telling or lines or [""])[-1].strip()[:MOST_CHARACTERS]

"""PURE: the line on stderr with the reason why a worker ended, though libraries wrote more after it.

Python writes the exception last; but at its exit torch warns of a process group that was not destroyed, and
multiprocessing of semaphores that leaked. A worker that fails because of a peer is recognised by its last line, so
these warnings must not be taken for it. Only lines that are surely no more than a warning are passed over.

A worker that receives SIGTERM while an exception is unwinding exits by signal. A traceback at the end of stderr still
shows that the exception came first: Python prints none for SIGTERM.
"""

import re

MAX_CHARACTERS = 1024

_WARNING = re.compile(
    r"(\[rank\d+\]:)?\[[IW]\d{4} [\d:.]+ \S+:\d+\]"  # as c10 writes what is no error
    r"|\S+:\d+: \w*Warning: |\s+warnings\.warn\("  # as Python does, with the line of the program that it belongs to
    r"|\s*$"
)
_RANK = re.compile(r"\[rank\d+\]: ?")
_TRACEBACK = "Traceback (most recent call last):"
_SIGNAL_NOTICE = "KeyboardInterrupt"
"""Python's answer to SIGINT, which may be the signal that stops workers."""


def error_line(text: str) -> str:
    """Return the last line that is no warning, cut; else the last one that is not blank; else nothing."""
    lines = [line for line in text.splitlines() if line.strip()]
    return (_meaningful_lines(lines) or lines or [""])[-1].strip()[:MAX_CHARACTERS]


def traceback_tail(text: str) -> str:
    """The exception whose traceback is the end of all that was said, in one line; empty if it ends otherwise."""
    lines = [_RANK.sub("", line, count=1) for line in _meaningful_lines(text.splitlines())]
    after = next((lines[-at:] for at in range(1, len(lines) + 1) if lines[-at] == _TRACEBACK), [])
    below = [line for line in after[1:] if not line.startswith(" ")]
    return below[0][:MAX_CHARACTERS] if len(below) == 1 and not below[0].startswith(_SIGNAL_NOTICE) else ""


def _meaningful_lines(lines: list[str]) -> list[str]:
    return [line for line in lines if not _WARNING.match(line)]

"""The line of stderr with the reason why a worker ended, even if libraries wrote more lines after it.

Python writes the exception last. But at exit torch warns of a process group that was not destroyed, and
multiprocessing warns of leaked semaphores. A worker that fails because of a peer is recognised by its last line, so
such a warning must not count as the last line. Only lines that are certainly mere warnings are skipped.

A worker that receives SIGTERM while an exception is unwinding exits by signal. A traceback at the end of stderr still
shows that the exception came first: Python prints none for SIGTERM.
"""

import re

MAX_CHARACTERS = 1024

_WARNING = re.compile(
    r"(\[rank\d+\]:)?\[[IW]\d{4} [\d:.]+ \S+:\d+\]"  # c10's format for messages below error
    r"|\S+:\d+: \w*Warning: |\s+warnings\.warn\("  # Python's format, and the program's line after it
    r"|\s*$"
)
_RANK = re.compile(r"\[rank\d+\]: ?")
_TRACEBACK = "Traceback (most recent call last):"
_SIGNAL_NOTICE = "KeyboardInterrupt"
"""Python raises it at SIGINT, which may be the signal that stops workers."""


def error_line(text: str) -> str:
    """Return the last line that is not a warning, else the last that is not blank, else an empty text.

    At most 1024 characters.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    return (_meaningful_lines(lines) or lines or [""])[-1].strip()[:MAX_CHARACTERS]


def traceback_tail(text: str) -> str:
    """Return the exception, in one line, if the text ends with its traceback; else an empty text."""
    lines = [_RANK.sub("", line, count=1) for line in _meaningful_lines(text.splitlines())]
    after = next((lines[-at:] for at in range(1, len(lines) + 1) if lines[-at] == _TRACEBACK), [])
    below = [line for line in after[1:] if not line.startswith(" ")]
    return below[0][:MAX_CHARACTERS] if len(below) == 1 and not below[0].startswith(_SIGNAL_NOTICE) else ""


def _meaningful_lines(lines: list[str]) -> list[str]:
    return [line for line in lines if not _WARNING.match(line)]

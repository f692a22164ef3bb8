"""Text of help pages as the terminal has room for it; what is not a terminal is a page of eighty columns.

Only what argparse imports anyway: a help page must not take longer than it takes to read.
"""

import shutil
import textwrap
from collections.abc import Sequence

_MIN_COLUMNS, _MAX_COLUMNS = 40, 118
"""Columns: narrower is unreadable, wider is tiring."""


def columns() -> int:
    """Of a line of help; as argparse takes it for its own lines."""
    return min(_MAX_COLUMNS, max(_MIN_COLUMNS, shutil.get_terminal_size().columns - 2))


def paragraph(text: str) -> str:
    """One, however its source is broken into lines."""
    return textwrap.fill(" ".join(text.split()), columns(), break_on_hyphens=False, break_long_words=False)


def entry(head: str, text: str) -> str:
    """A line with a head of fixed width, and its text, which goes on below itself."""
    width = columns()
    lines = textwrap.wrap(
        text, max(_MIN_COLUMNS // 2, width - len(head)), break_on_hyphens=False, break_long_words=False
    )
    return f"\n{' ' * len(head)}".join([f"{head}{lines[0] if lines else ''}".rstrip(), *lines[1:]])


def examples(shown: Sequence[tuple[str, str]]) -> list[str]:
    """Command lines with what they do: beside them where all of it fits, else below."""
    widest = max(len(command) for command, _ in shown)
    beside = [f"  {command:<{widest}}  {remark}".rstrip() for command, remark in shown]
    if max(map(len, beside)) <= columns():
        return beside
    below = [[f"  {command}", *([entry(" " * 6, remark)] if remark else [])] for command, remark in shown]
    return [line for lines in below for line in lines]

"""Format the text of help for the width of the terminal; without a terminal, for eighty columns.

This module imports only modules that argparse imports anyway, so that help appears at once.
"""

import shutil
import textwrap
from collections.abc import Sequence

_MIN_COLUMNS, _MAX_COLUMNS = 40, 118
"""Columns: fewer are unreadable, more are tiring."""


def columns() -> int:
    """Return the columns of a line of help, computed as argparse does."""
    return min(_MAX_COLUMNS, max(_MIN_COLUMNS, shutil.get_terminal_size().columns - 2))


def paragraph(text: str) -> str:
    """Return the text as one wrapped paragraph, without the line breaks of its source."""
    return textwrap.fill(" ".join(text.split()), columns(), break_on_hyphens=False, break_long_words=False)


def entry(head: str, text: str) -> str:
    """Return a line with a head of fixed width and a text that continues below itself."""
    width = columns()
    lines = textwrap.wrap(
        text, max(_MIN_COLUMNS // 2, width - len(head)), break_on_hyphens=False, break_long_words=False
    )
    return f"\n{' ' * len(head)}".join([f"{head}{lines[0] if lines else ''}".rstrip(), *lines[1:]])


def examples(shown: Sequence[tuple[str, str]]) -> list[str]:
    """Return command lines with their remarks: beside them if all fit, otherwise below."""
    widest = max(len(command) for command, _ in shown)
    beside = [f"  {command:<{widest}}  {remark}".rstrip() for command, remark in shown]
    if max(map(len, beside)) <= columns():
        return beside
    below = [[f"  {command}", *([entry(" " * 6, remark)] if remark else [])] for command, remark in shown]
    return [line for lines in below for line in lines]

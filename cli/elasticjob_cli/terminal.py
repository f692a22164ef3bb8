"""Properties of the terminal: its size, whether it is one, and colours, which NO_COLOR and pipes turn off."""

import os
import shutil
import sys
from enum import Enum
from typing import TextIO

_PIPE_WIDTH = 120


class Style(Enum):
    """How text is meant; the value is what turns it on."""

    PLAIN = ""
    DIM = "\x1b[2m"
    BOLD = "\x1b[1m"
    GOOD = "\x1b[32m"
    WARN = "\x1b[33m"
    BAD = "\x1b[31m"
    INFO = "\x1b[36m"


_RESET = "\x1b[0m"


def is_terminal(stream: TextIO | None = None) -> bool:
    """Somebody looks at it."""
    return (stream or sys.stdout).isatty() and os.environ.get("TERM") != "dumb"


def has_colour(stream: TextIO | None = None) -> bool:
    """It is a terminal, and nobody has set NO_COLOR."""
    return is_terminal(stream) and not os.environ.get("NO_COLOR")


def width() -> int:
    """Columns; of a pipe, a page's width."""
    if not is_terminal():
        return int(os.environ.get("COLUMNS") or _PIPE_WIDTH)
    return shutil.get_terminal_size().columns


def printable(text: str) -> str:
    """The text without control characters, as workers may write them into names and messages; line breaks stay."""
    return "".join(letter if letter.isprintable() or letter == "\n" else " " for letter in text)


def show(text: str) -> None:
    """Print it, made printable, at once."""
    print(printable(text), flush=True)


def paint(text: str, style: Style, *, colour: bool) -> str:
    """The text in this style, or as it is."""
    return f"{style.value}{text}{_RESET}" if colour and style.value and text else text

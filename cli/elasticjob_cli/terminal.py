"""Properties of the terminal: whether there is one, its width, and colours, which NO_COLOR and pipes turn off."""

import os
import shutil
import sys
from enum import Enum
from typing import TextIO

_PIPE_WIDTH = 120


class Style(Enum):
    """A style of text; the value is the escape sequence that turns it on."""

    PLAIN = ""
    DIM = "\x1b[2m"
    BOLD = "\x1b[1m"
    GOOD = "\x1b[32m"
    WARN = "\x1b[33m"
    BAD = "\x1b[31m"
    INFO = "\x1b[36m"


_RESET = "\x1b[0m"


def is_terminal(stream: TextIO | None = None) -> bool:
    """Return whether the stream is a terminal, and not a dumb one."""
    return (stream or sys.stdout).isatty() and os.environ.get("TERM") != "dumb"


def has_colour(stream: TextIO | None = None) -> bool:
    """Return whether the stream is a terminal and NO_COLOR is not set."""
    return is_terminal(stream) and not os.environ.get("NO_COLOR")


def width() -> int:
    """Return the columns of the terminal, or those of a page in a pipe."""
    if not is_terminal():
        return int(os.environ.get("COLUMNS") or _PIPE_WIDTH)
    return shutil.get_terminal_size().columns


def printable(text: str) -> str:
    """Return the text with a space for each control character; line breaks remain."""
    # Workers may write control characters into names and messages.
    return "".join(letter if letter.isprintable() or letter == "\n" else " " for letter in text)


def show(text: str) -> None:
    """Print the printable text at once."""
    print(printable(text), flush=True)


def paint(text: str, style: Style, *, colour: bool) -> str:
    """Return the text in this style, or unchanged without colour."""
    return f"{style.value}{text}{_RESET}" if colour and style.value and text else text

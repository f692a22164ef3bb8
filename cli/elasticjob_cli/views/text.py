"""Words and numbers in readable form, and cells in columns."""

import re
import textwrap
from collections.abc import Sequence
from datetime import UTC, datetime

_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_STEP = 1024.0
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_TIME_OF_DAY = re.compile(r" +\d\d:\d\d:\d\d +")
_SHORT_S = 10.0
_TWO_UNITS_BELOW = 10


def pluralize(count: int, noun: str, plural: str = "") -> str:
    """Return `1 node`, `2 nodes` or `no nodes`."""
    word = noun if count == 1 else plural or f"{noun}s"
    return f"{count or 'no'} {word}"


def duration(seconds: float) -> str:
    """Return a duration such as `0.13 s`, `7.1 s`, `42 s`, `5 min 3 s`, `2 h 5 min` or `3 d 4 h`."""
    if seconds < 1:
        return f"{max(0.0, seconds):.2f} s"
    if seconds < _SHORT_S:
        return f"{seconds:.1f} s"
    whole = int(seconds)
    for size, unit, smaller, small in ((_DAY, "d", _HOUR, "h"), (_HOUR, "h", _MINUTE, "min"), (_MINUTE, "min", 1, "s")):
        if whole >= size:
            count, rest = divmod(whole, size)
            rest //= smaller
            return f"{count} {unit} {rest} {small}" if rest else f"{count} {unit}"
    return f"{whole} s"


def age(seconds: float) -> str:
    """Return an age as kubectl prints it: `5s`, `4m10s`, `3h`, `12d`."""
    whole = max(0, int(seconds))
    for size, unit, smaller, small in ((_DAY, "d", _HOUR, "h"), (_HOUR, "h", _MINUTE, "m"), (_MINUTE, "m", 1, "s")):
        if whole >= size:
            count, rest = divmod(whole, size)
            rest //= smaller
            return f"{count}{unit}{rest}{small}" if rest and count < _TWO_UNITS_BELOW else f"{count}{unit}"
    return f"{whole}s"


def size(count: float) -> str:
    """Return a number of bytes such as `512 B` or `1.5 GiB`."""
    for unit in _UNITS[:-1]:
        if count < _STEP:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= _STEP
    return f"{count:.1f} {_UNITS[-1]}"


def parse_time(text: object) -> float | None:
    """Return an RFC 3339 time as seconds since 1970; None for anything else."""
    if not isinstance(text, str) or not text:
        return None
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None


def clock(seconds: float, *, fine: bool = False) -> str:
    """Return a time in UTC, such as `10:02:03`, or `10:02:03.412` when fine."""
    at = datetime.fromtimestamp(seconds, tz=UTC)
    return at.strftime("%H:%M:%S.%f")[:-3] if fine else at.strftime("%H:%M:%S")


def day(seconds: float) -> str:
    """Return a date and time such as `2026-11-21 10:02:03 UTC`."""
    return datetime.fromtimestamp(seconds, tz=UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def align(rows: Sequence[Sequence[str]], *, gap: str = "   ") -> list[str]:
    """Return the rows in columns that are as wide as their widest cell."""
    if not rows:
        return []
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [gap.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def cut(text: str, width: int) -> str:
    """Return at most `width` characters; the last one is an ellipsis if text is missing."""
    return text if len(text) <= width else text[: max(0, width - 1)] + "…"


def wrap_lines(text: str, width: int, *, most: int = 3) -> list[str]:
    """Return at most `most` lines of at most `width` columns; the last one is cut if text is missing."""
    lines = textwrap.wrap(text, max(10, width), break_on_hyphens=False) or [""]
    return lines if len(lines) <= most else [*lines[: most - 1], cut(" ".join(lines[most - 1 :]), width)]


def wrap_hanging(line: str, width: int) -> list[str]:
    """Return the line wrapped, with further lines indented below the first one's text."""
    if len(line) <= width:
        return [line]
    time_of_day = _TIME_OF_DAY.match(line)
    margin = " " * (time_of_day.end() if time_of_day else len(line) - len(line.lstrip()))
    return textwrap.wrap(line, width, subsequent_indent=margin, break_on_hyphens=False)


def one_line(text: str) -> str:
    """Return the text without line breaks and control characters."""
    return "".join(letter if letter.isprintable() else " " for letter in " ".join(text.split()))


def sentence(text: str) -> str:
    """Return one line that ends like a sentence; its beginning is unchanged, since it may be a name."""
    line = one_line(text)
    return line if line.endswith((".", "!", "?", "…")) else f"{line}."

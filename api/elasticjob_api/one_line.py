"""Untrusted text as one line without terminal control characters, so that it cannot forge lines of output."""


def one_line(text: str, most: int | None = None) -> str:
    """Return the text with spaces instead of line breaks and control characters, at most `most` characters of it."""
    cut = text[:most]
    return cut if cut.isprintable() else "".join(c if c.isprintable() else " " for c in " ".join(cut.split()))


def shorten(text: str, most: int) -> str:
    """Return the text; of a longer one than `most` characters, the begin and the end, with a mark in between."""
    if len(text) <= most:
        return text
    begin = most * 3 // 8
    return f"{text[:begin]}…{text[len(text) - (most - begin - 1) :]}"

"""PURE: untrusted text in one line, without control characters of a terminal: a reader is never shown a forged line."""


def one_line(text: str, most: int | None = None) -> str:
    """Return the text with a space in place of line breaks and control characters, at most so many characters of it."""
    kept = text[:most]
    return kept if kept.isprintable() else "".join(c if c.isprintable() else " " for c in " ".join(kept.split()))

"""PURE: words of strangers in one line, without what a terminal obeys: nobody who reads ours is shown a forged one."""


def one_line(text: str, most: int | None = None) -> str:
    """Return the text with a space in place of line breaks and control characters, at most so many characters of it."""
    kept = text[:most]
    return kept if kept.isprintable() else "".join(c if c.isprintable() else " " for c in " ".join(kept.split()))

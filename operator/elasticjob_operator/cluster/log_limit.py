"""Log lines about what strangers write: text that cannot forge a line, and no more lines than a person can read."""

from collections.abc import Callable

MAX_LINES, PERIOD_S = 20, 60.0
"""So many lines in this time, and one about each key."""
_MAX_CHARACTERS = 400


class LogRateLimiter:
    """Lets few lines through; `clock` is monotonic, in seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since_s = clock()
        self._keys: set[str] = set()

    def allow(self, key: str) -> bool:
        """Whether a line about this key may be written now."""
        if self._clock() >= self._since_s + PERIOD_S:
            self._since_s = self._clock()
            self._keys.clear()
        if key in self._keys or len(self._keys) >= MAX_LINES:
            return False
        self._keys.add(key)
        return True


def printable(text: str) -> str:
    """Return the text with every control character spelt out, and shortened: a newline would begin a forged line."""
    shown = text if len(text) <= _MAX_CHARACTERS else f"{text[:_MAX_CHARACTERS]}..."
    return shown if shown.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in shown)

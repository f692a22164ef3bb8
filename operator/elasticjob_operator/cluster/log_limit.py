"""Log lines about untrusted data: text that cannot forge a line, and a limit for the number of lines."""

from collections.abc import Callable

MAX_LINES, PERIOD_S = 20, 60.0
"""Most lines in a period, and the period; each key has one line in it."""
_MAX_CHARACTERS = 400


class LogRateLimiter:
    """A limit for log lines; `clock` is monotonic, in seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since_s = clock()
        self._keys: set[str] = set()

    def allow(self, key: str) -> bool:
        """Return whether a line about this key may be written now."""
        if self._clock() >= self._since_s + PERIOD_S:
            self._since_s = self._clock()
            self._keys.clear()
        if key in self._keys or len(self._keys) >= MAX_LINES:
            return False
        self._keys.add(key)
        return True


def printable(text: str) -> str:
    """Return the text shortened and with every control character escaped."""
    # A line break would begin a forged line.
    shown = text if len(text) <= _MAX_CHARACTERS else f"{text[:_MAX_CHARACTERS]}..."
    return shown if shown.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in shown)

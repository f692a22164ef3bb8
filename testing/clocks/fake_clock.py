"""A clock that a test sets."""

from dataclasses import dataclass


@dataclass
class FakeClock:
    """Returns the time when called; the time is constant until `now_s` is set."""

    now_s: float = 0.0

    def __call__(self) -> float:
        """Seconds."""
        return self.now_s

"""The pause between attempts: doubling from 0.1 s to 2 s, with jitter, so that clients do not all retry at once.

One `Backoff` belongs to one sequence of attempts; it counts failures, and a success resets it.
"""

import asyncio
from collections.abc import Callable

Random = Callable[[], float]
"""Returns a number from [0, 1), as `random.random` does."""

_FIRST_S = 0.1
_MAX_S = 2.0
_DOUBLINGS = 5  # 0.1 s doubled five times is beyond the cap


class Backoff:
    """The pauses of one sequence of attempts; each is drawn from the upper half of its step."""

    def __init__(self, rng: Random, *, max_s: float = _MAX_S) -> None:
        self._rng = rng
        self._max_s = max_s
        self._failures = 0

    def next_s(self) -> float:
        """Count one more failure; return the seconds to wait before the next attempt."""
        step_s = min(_FIRST_S * float(2**self._failures), self._max_s)
        self._failures = min(self._failures + 1, _DOUBLINGS)
        return step_s * (1.0 + self._rng()) / 2

    async def pause(self) -> None:
        """Wait `next_s()` seconds."""
        await asyncio.sleep(self.next_s())

    def reset(self) -> None:
        """Start over: an attempt succeeded."""
        self._failures = 0

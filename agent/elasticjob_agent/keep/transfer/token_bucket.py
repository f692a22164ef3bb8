"""How long a transfer waits before its next piece, so that all of them together keep a rate.

The bucket is filled with `rate` tokens a second, one for each byte, up to `burst`. A piece may take more than there is:
then the bucket owes, and the next piece waits. The time is an argument, in seconds of any clock that never goes back.
"""

LONGEST_PIECE = 4 << 20
_PIECES_A_SECOND = 16
"""So many pieces a second at least, so that a receiver sees progress at any rate."""


def piece_bytes(rate: float | None) -> int:
    """Return the size of a piece at this rate in bytes a second; None is unlimited."""
    if rate is None:
        return LONGEST_PIECE
    return min(LONGEST_PIECE, max(1, int(rate / _PIECES_A_SECOND)))


class TokenBucket:
    """Bytes that may be sent now; it begins with a full burst."""

    def __init__(self, rate: float, burst: float, *, now_s: float) -> None:
        if rate <= 0 or burst <= 0:
            raise ValueError(f"rate {rate} and burst {burst} must be above 0")
        self._rate = rate
        self._burst = burst
        self._tokens = burst
        self._filled_s = now_s

    def take(self, count: int, *, now_s: float) -> float:
        """Take tokens for `count` bytes, and return the seconds to wait before they are sent."""
        passed_s = max(0.0, now_s - self._filled_s)
        self._filled_s = max(self._filled_s, now_s)
        self._tokens = min(self._burst, self._tokens + passed_s * self._rate) - count
        return max(0.0, -self._tokens / self._rate)

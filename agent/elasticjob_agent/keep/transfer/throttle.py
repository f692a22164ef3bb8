"""The rate that all transfers out of this keeper share; it can be changed while several threads send."""

import threading
import time
from collections.abc import Callable

from elasticjob_agent.keep.transfer.token_bucket import LONGEST_PIECE, TokenBucket, piece_bytes


class Throttle:
    """Delays pieces; without a rate (None) it delays nothing."""

    def __init__(self, rate: float | None = None, *, clock: Callable[[], float] = time.monotonic) -> None:
        """`rate` is in bytes a second."""
        self._clock = clock
        self._condition = threading.Condition()
        self._rate: float | None = None
        self._bucket: TokenBucket | None = None
        self.set_rate(rate)

    def set_rate(self, rate: float | None) -> None:
        """Apply this rate from now on; transfers that wait go on at it at once."""
        with self._condition:
            if rate != self._rate:
                burst = min(LONGEST_PIECE, rate) if rate else 0.0
                self._bucket = TokenBucket(rate, burst, now_s=self._clock()) if rate else None
            self._rate = rate
            self._condition.notify_all()

    @property
    def piece_bytes(self) -> int:
        """Return the most bytes for one `wait`."""
        return piece_bytes(self._rate)

    def wait(self, count: int) -> None:
        """Return when `count` bytes may be sent."""
        with self._condition:
            bucket = self._bucket
            if bucket is None:
                return
            pause_s = bucket.take(count, now_s=self._clock())
            if pause_s:
                self._condition.wait_for(lambda: self._bucket is not bucket, pause_s)

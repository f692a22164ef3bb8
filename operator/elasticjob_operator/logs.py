"""The operator's log: our own sentences, and of kopf's only what is news.

kopf tells every handled event, and while the API server is away every attempt to reach it, a line a second for
each watch. Of the attempts one line a minute is enough to see that it is so.
"""

import logging
import re
import sys
import time
from collections.abc import Callable

_ATTEMPT = re.compile(r"Request attempt #\S+ failed; .*?: ([A-Z]+) (\S+?)(?:\?\S*)? -> (.*)", re.DOTALL)
_ERROR_LIMIT = 300
SAY_AGAIN_S = 60.0


class Seldom(logging.Filter):
    """Lets one line about a failed request through, shortened, then none for a minute; every other line passes."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._silent_until_s = float("-inf")

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether it is written."""
        attempt = _ATTEMPT.fullmatch(record.getMessage())
        if attempt is None:
            return True
        if self._clock() < self._silent_until_s:
            return False
        self._silent_until_s = self._clock() + SAY_AGAIN_S
        method, url, error = attempt.groups()
        record.msg, record.args = "cannot watch, trying again: %s %s: %s", (method, url, error[:_ERROR_LIMIT])
        return True


def log_to_stderr(*, verbose: bool) -> None:
    """Set up the whole process's logging."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    if not verbose:
        handler.addFilter(Seldom())
        for noisy in ("kopf", "aiohttp.access"):
            logging.getLogger(noisy).setLevel(logging.WARNING)
    logging.basicConfig(level=logging.DEBUG if verbose else logging.INFO, handlers=[handler])

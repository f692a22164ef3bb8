"""The operator's log: our own sentences, and of kopf's only what is news.

kopf logs every handled event. While the API server is away it logs every attempt to reach it, a line a second for each
watch. Of the attempts one line a minute is enough to see that it is so.
"""

import json
import logging
import re
import sys
import time
from collections.abc import Callable

from elasticjob_operator.model.job_key import JobKey

_ATTEMPT = re.compile(r"Request attempt #\S+ failed; .*?: ([A-Z]+) (\S+?)(?:\?\S*)? -> (.*)", re.DOTALL)
_ERROR_LIMIT = 300
LOG_AGAIN_S = 60.0


class RateLimitFilter(logging.Filter):
    """Lets one line about a failed request through, shortened, then none for a minute; every other line passes."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._suppressed_until_s = float("-inf")

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether it is written."""
        attempt = _ATTEMPT.fullmatch(record.getMessage())
        if attempt is None:
            return True
        if self._clock() < self._suppressed_until_s:
            return False
        self._suppressed_until_s = self._clock() + LOG_AGAIN_S
        method, url, error = attempt.groups()
        record.msg, record.args = "cannot watch, trying again: %s %s: %s", (method, url, error[:_ERROR_LIMIT])
        return True


class TextLines(logging.Formatter):
    """A line for each message, whoever's words are in it: what would begin another one is spelt out."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 -- the name is logging's
        """The line, without a traceback."""
        said = record.message
        record.message = said if said.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in said)
        return super().formatMessage(record)


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, message, and the job and namespace that the line is about."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line: dict[str, object] = {
            "time": self.formatTime(record),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if (key := _context_of(record)) is not None:
            line |= {"namespace": key.namespace, "job": key.name, "uid": key.uid}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)


def _context_of(record: logging.LogRecord) -> JobKey | None:
    """Every line about a job names its key first."""
    args = record.args if isinstance(record.args, tuple) else ()
    return next((arg for arg in args if isinstance(arg, JobKey)), None)


def log_to_stderr(*, verbose: bool, as_json: bool = False) -> None:
    """Set up the whole process's logging."""
    handler = logging.StreamHandler(sys.stderr)
    text = TextLines("%(asctime)s %(levelname)s %(name)s: %(message)s")
    handler.setFormatter(JsonFormatter() if as_json else text)
    if not verbose:
        handler.addFilter(RateLimitFilter())
        for noisy in ("kopf", "aiohttp.access"):
            logging.getLogger(noisy).setLevel(logging.WARNING)
    logging.basicConfig(level=logging.DEBUG if verbose else logging.INFO, handlers=[handler])

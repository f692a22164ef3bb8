"""Formatters and a filter of the operator's log.

kopf logs every event that it handles, so only its warnings are shown. While the API server is unavailable, each failed
attempt is a line, one a second for each watch. The filter lets one of these lines a minute through.
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
    """Lets one shortened line about a failed request a minute through, and every other line."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._suppressed_until_s = float("-inf")

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the line is written."""
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
    """Writes each message as one line: characters that are not printable, such as line breaks, are escaped."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 -- the name is logging's
        """Return the line, without a traceback."""
        text = record.message
        record.message = text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
        return super().formatMessage(record)


class JsonFormatter(logging.Formatter):
    """Writes one JSON object a line: time, level, logger, message; and namespace, name and uid of the line's job."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
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
    """Return the job that a line is about: the first job key among its arguments, or None."""
    args = record.args if isinstance(record.args, tuple) else ()
    return next((arg for arg in args if isinstance(arg, JobKey)), None)


def log_to_stderr(*, verbose: bool, as_json: bool = False) -> None:
    """Configure logging for the whole process."""
    handler = logging.StreamHandler(sys.stderr)
    text = TextLines("%(asctime)s %(levelname)s %(name)s: %(message)s")
    handler.setFormatter(JsonFormatter() if as_json else text)
    if not verbose:
        handler.addFilter(RateLimitFilter())
        for noisy in ("kopf", "aiohttp.access"):
            logging.getLogger(noisy).setLevel(logging.WARNING)
    logging.basicConfig(level=logging.DEBUG if verbose else logging.INFO, handlers=[handler])

"""Destinations of events by name, each a handler of the logging module.

`null`, `console` and, for events of rendezvous, `dynamic_rendezvous` exist; programs add their own with `register`.
Nothing here touches the root logger.
"""

import logging
import sys
from typing import Any


class _Stderr(logging.StreamHandler[Any]):
    """Standard error at the time of each write, because programs and tests replace it."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> Any:
        return sys.stderr


_log_handlers: dict[str, logging.Handler] = {
    "console": _Stderr(),
    "dynamic_rendezvous": logging.NullHandler(),
    "null": logging.NullHandler(),
}


def register(destination: str, handler: logging.Handler) -> None:
    """Register `handler` as `destination`; the last one of a name counts."""
    _log_handlers[destination] = handler


def get_logging_handler(destination: str = "null") -> logging.Handler:
    """Return the handler of a destination; raise ValueError for an unknown one."""
    try:
        return _log_handlers[destination]
    except KeyError:
        known = ", ".join(sorted(_log_handlers))
        raise ValueError(f"unknown destination of events {destination!r}; it is one of {known}") from None

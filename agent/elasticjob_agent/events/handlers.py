"""Where events go: destinations by name, each a handler of the logging module.

`null`, `console` and, for events of rendezvous, `dynamic_rendezvous` are there; programs add their own with `register`.
Nothing here touches the root logger.
"""

import logging
import sys
from typing import Any


class _Stderr(logging.StreamHandler[Any]):
    """Standard error as it is at the moment of writing: programs and tests replace it."""

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
    """Make `handler` known as `destination`; the last one of a name counts."""
    _log_handlers[destination] = handler


def get_logging_handler(destination: str = "null") -> logging.Handler:
    """The handler of a destination; raises ValueError for one that is not known."""
    try:
        return _log_handlers[destination]
    except KeyError:
        known = ", ".join(sorted(_log_handlers))
        raise ValueError(f"events cannot go to {destination!r}: known destinations are {known}") from None

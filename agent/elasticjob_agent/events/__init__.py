"""Events of the agent and its workers: `record` sends one to a destination that is known by its name.

register("kafka", MyLoggingHandler())
record(Event("my.event", EventSource.AGENT), "kafka")
"""

import logging

from elasticjob_agent.events.api import Event, EventMetadataValue, EventSource
from elasticjob_agent.events.handlers import get_logging_handler, register

__all__ = ["Event", "EventMetadataValue", "EventSource", "get_logging_handler", "record", "register"]


def record(event: Event, destination: str = "null") -> None:
    """Send one event.

    Args:
        event: what happened.
        destination: `null`, which forgets it, `console`, or a name that was registered.

    Raises:
        ValueError: the destination is not known.
    """
    handler = get_logging_handler(destination)
    # Straight to the handler: no logger whose level, filters or parents could change or double what is said.
    handler.handle(logging.LogRecord(__name__, logging.INFO, __file__, 0, event.serialize(), None, None))

"""Events of the agent and its workers: `record` sends one to a destination, which is known by its name.

register("kafka", MyLoggingHandler())
record(Event("my.event", EventSource.AGENT), "kafka")
"""

import logging
import os
import sys
import traceback
from pathlib import Path

from elasticjob_agent.events.api import Event, EventMetadataValue, EventSource, NodeState, RdzvEvent
from elasticjob_agent.events.handlers import get_logging_handler, register

__all__ = [
    "Event",
    "EventMetadataValue",
    "EventSource",
    "NodeState",
    "RdzvEvent",
    "construct_and_record_rdzv_event",
    "get_logging_handler",
    "record",
    "record_rdzv_event",
    "register",
]

_RDZV = "dynamic_rendezvous"


def record(event: Event, destination: str = "null") -> None:
    """Send one event.

    Args:
        event: the event.
        destination: `null`, which discards it, `console`, or a registered name.

    Raises:
        ValueError: the destination is not known.
    """
    _send(event.serialize(), destination)


def record_rdzv_event(event: RdzvEvent) -> None:
    """Send one event of a rendezvous to the destination `dynamic_rendezvous`."""
    _send(event.serialize(), _RDZV)


def construct_and_record_rdzv_event(  # noqa: PLR0917 - the signature is torch's
    run_id: str,
    message: str,
    node_state: NodeState,
    name: str = "",
    hostname: str = "",
    pid: int | None = None,
    master_endpoint: str = "",
    local_id: int | None = None,
    rank: int | None = None,
) -> None:
    """Send an event of a rendezvous, if a handler is registered as `dynamic_rendezvous`.

    Args:
        run_id: the id of the job.
        message: a description of the event.
        node_state: the state of the node; FAILED adds the traceback of the exception that is being handled.
        name: the name of the event; empty: the calling function. The name of the caller's file is put before it.
        hostname: of the node; empty: this host.
        pid: of the agent; None: this process.
        master_endpoint: of the rendezvous' store.
        local_id: distinguishes nodes of one process.
        rank: of the node.
    """
    if isinstance(get_logging_handler(_RDZV), logging.NullHandler):
        return
    import socket  # noqa: PLC0415 - only programs that record such events need the host's name

    caller = sys._getframe(1).f_code  # noqa: SLF001 - inspect.stack() would read every source file on the stack
    event = RdzvEvent(
        name=f"{Path(caller.co_filename).name}:{name or caller.co_name}",
        run_id=run_id,
        message=message,
        hostname=hostname or socket.getfqdn(),
        pid=pid or os.getpid(),
        node_state=node_state,
        master_endpoint=master_endpoint,
        rank=rank,
        local_id=local_id,
        error_trace=traceback.format_exc() if node_state is NodeState.FAILED else "",
    )
    record_rdzv_event(event)


def _send(text: str, destination: str) -> None:
    handler = get_logging_handler(destination)
    # Straight to the handler, because a logger's level, filters or parents could drop or repeat an event.
    handler.handle(logging.LogRecord(__name__, logging.INFO, __file__, 0, text, None, None))


def _get_or_create_logger(destination: str = "null") -> logging.Logger:
    """Return a logger whose records go to that destination, for programs that log events themselves as in torch."""
    logger = logging.getLogger(f"torchelastic-events-{destination}")
    handler = get_logging_handler(destination)
    logger.setLevel(os.environ.get("LOGLEVEL", "INFO").upper())
    logger.propagate = False
    if logger.handlers != [handler]:
        logger.handlers[:] = [handler]
    return logger

"""One event: what happened, who says so, when, and what else is known; as JSON, both ways."""

import json
from dataclasses import asdict, dataclass, field
from enum import Enum

EventMetadataValue = str | int | float | bool | None


class EventSource(str, Enum):  # noqa: UP042 - its text stays `EventSource.AGENT`, as in the API
    """Who an event is about."""

    AGENT = "AGENT"
    """The agent of a node."""
    WORKER = "WORKER"
    """One worker of it."""


class NodeState(str, Enum):  # noqa: UP042 - as above
    """Where a node is in its rendezvous."""

    INIT = "INIT"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"


@dataclass
class Event:
    """One event."""

    name: str
    """What happened, as `torchelastic.worker.status.SUCCEEDED`."""
    source: EventSource
    """To whom."""
    timestamp: int = 0
    """Milliseconds since the epoch; 0: not said."""
    metadata: dict[str, EventMetadataValue] = field(default_factory=dict)
    """What else is known."""

    def __str__(self) -> str:
        return self.serialize()

    def serialize(self) -> str:
        """The event as JSON text."""
        return json.dumps(asdict(self))

    @staticmethod
    def deserialize(data: "str | Event") -> "Event":
        """The event in JSON text; an event is returned as it is.

        Raises:
            ValueError: the text is no JSON.
            KeyError: it names no source, or one that there is not.
            TypeError: its fields are not those of an event.
        """
        if isinstance(data, Event):
            return data
        fields = json.loads(data)
        return Event(**{**fields, "source": EventSource[fields["source"]]})


@dataclass
class RdzvEvent:
    """One event of a rendezvous; our own rendezvous records none, programs with handlers of their own do."""

    name: str
    """What was done, as `handler.py:next_rendezvous`."""
    run_id: str
    """The id of the job."""
    message: str
    """What happened, in words."""
    hostname: str
    """Of the node."""
    pid: int
    """Of the agent."""
    node_state: NodeState
    """Where the node is."""
    master_endpoint: str = ""
    """Of the rendezvous' store, if known."""
    rank: int | None = None
    """Of the node, if known."""
    local_id: int | None = None
    """Tells nodes of one process apart."""
    error_trace: str = ""
    """The traceback of what failed."""

    def __str__(self) -> str:
        return self.serialize()

    def serialize(self) -> str:
        """The event as JSON text."""
        return json.dumps(asdict(self))

    @staticmethod
    def deserialize(data: "str | RdzvEvent") -> "RdzvEvent":
        """The event in JSON text; raises as `Event.deserialize`."""
        if isinstance(data, RdzvEvent):
            return data
        fields = json.loads(data)
        return RdzvEvent(**{**fields, "node_state": NodeState[fields["node_state"]]})

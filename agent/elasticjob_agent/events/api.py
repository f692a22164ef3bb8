"""One event with its name, source, time and metadata; as JSON, both ways."""

import json
from dataclasses import asdict, dataclass, field
from enum import Enum

EventMetadataValue = str | int | float | bool | None


class EventSource(str, Enum):  # noqa: UP042 - its text stays `EventSource.AGENT`, as in the API
    """The subject of an event."""

    AGENT = "AGENT"
    """The agent of a node."""
    WORKER = "WORKER"
    """One worker of the node."""


class NodeState(str, Enum):  # noqa: UP042 - as above
    """The state of a node in its rendezvous."""

    INIT = "INIT"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"


@dataclass
class Event:
    """One event."""

    name: str
    """The name, such as `torchelastic.worker.status.SUCCEEDED`."""
    source: EventSource
    """The subject."""
    timestamp: int = 0
    """Milliseconds since the epoch; 0 if unknown."""
    metadata: dict[str, EventMetadataValue] = field(default_factory=dict)
    """Further facts."""

    def __str__(self) -> str:
        return self.serialize()

    def serialize(self) -> str:
        """Return the event as JSON text."""
        return json.dumps(asdict(self))

    @staticmethod
    def deserialize(data: "str | Event") -> "Event":
        """Return the event in JSON text; an event is returned unchanged.

        Raises:
            ValueError: the text is no JSON.
            KeyError: the source is missing or unknown.
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
    """The name, such as `handler.py:next_rendezvous`."""
    run_id: str
    """The id of the job."""
    message: str
    """A description of the event."""
    hostname: str
    """The name of the node's host."""
    pid: int
    """The pid of the agent."""
    node_state: NodeState
    """The state of the node."""
    master_endpoint: str = ""
    """The endpoint of the rendezvous' store, if known."""
    rank: int | None = None
    """The rank of the node, if known."""
    local_id: int | None = None
    """A number that distinguishes nodes of one process."""
    error_trace: str = ""
    """The traceback of the failure."""

    def __str__(self) -> str:
        return self.serialize()

    def serialize(self) -> str:
        """Return the event as JSON text."""
        return json.dumps(asdict(self))

    @staticmethod
    def deserialize(data: "str | RdzvEvent") -> "RdzvEvent":
        """Return the event in JSON text; raises as `Event.deserialize`."""
        if isinstance(data, RdzvEvent):
            return data
        fields = json.loads(data)
        return RdzvEvent(**{**fields, "node_state": NodeState[fields["node_state"]]})

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

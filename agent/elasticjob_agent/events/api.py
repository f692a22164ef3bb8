"""One event: what happened, who says so, when, and what else is known; as JSON, both ways."""

import json
from dataclasses import asdict, dataclass, field
from enum import Enum

EventMetadataValue = str | int | float | bool | None


class EventSource(str, Enum):  # noqa: UP042 - its text stays `EventSource.AGENT`, as in the API
    """Who an event is about."""

    AGENT = "AGENT"
    WORKER = "WORKER"


@dataclass
class Event:
    """One event; `timestamp` is milliseconds since the epoch."""

    name: str
    source: EventSource
    timestamp: int = 0
    metadata: dict[str, EventMetadataValue] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.serialize()

    def serialize(self) -> str:
        """The event as JSON text."""
        return json.dumps(asdict(self))

    @staticmethod
    def deserialize(data: "str | Event") -> "Event":
        """The event in JSON text; an event is returned as it is."""
        if isinstance(data, Event):
            return data
        fields = json.loads(data)
        return Event(**{**fields, "source": EventSource[fields["source"]]})

"""An event for people, as a record; `render/event.py` makes a Kubernetes object of it."""

from dataclasses import dataclass

from elasticjob_api.constants import ConditionType, EventReason


@dataclass(frozen=True, slots=True)
class Event:
    """Written only after what it speaks of."""

    reason: EventReason | ConditionType
    message: str
    warning: bool = False

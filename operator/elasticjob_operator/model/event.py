"""An event for users, as a record; `render/event.py` makes the Kubernetes object."""

from dataclasses import dataclass

from elasticjob_api.constants import ConditionType, EventReason


@dataclass(frozen=True, slots=True)
class Event:
    """An event about a job; it is written only after the change that it describes."""

    reason: EventReason | ConditionType
    message: str
    warning: bool = False

"""The pod that owns a slot, as a record; `policy.slots.ownership` makes it."""

from dataclasses import dataclass
from enum import Enum

from elasticjob_operator.model.pod import Pod


class PodState(Enum):
    """The state of a slot's pod."""

    PENDING_CREATE = "pending create"  # this process wrote the name and has not created the pod yet
    CREATED = "created"  # created, but not in the cache yet
    UNKNOWN = "unknown"  # not known: read it from the API server
    LIVE = "live"
    TERMINATING = "terminating"
    FAILED = "failed"
    COMPLETED = "completed"  # its containers succeeded before the job ended
    ABSENT = "absent"
    NEVER_CREATED = "never created"  # the request to create it failed; its name is not reused


@dataclass(frozen=True, slots=True)
class SlotPod:
    """A slot's pod: its name in the slot map, its state, and the pod itself if the cache has it."""

    name: str
    state: PodState
    pod: Pod | None = None

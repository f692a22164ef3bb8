"""The history of one slot's pods; `replacement_backoff` updates it, the job state stores it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotHistory:
    """The name of a slot's pod, and the number of consecutive short-lived pods, with this one once it has ended."""

    pod: str
    short_lived: int = 0
    running_since_s: float | None = None
    ended_at_s: float | None = None
    """When its end was first observed; on the monotonic clock, like `running_since_s`."""
    ended_time_s: float | None = None
    """The same time on the wall clock, for messages."""

"""How it went with one slot's pods: a record that `policy.churn` makes and reads, and the ledger keeps."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotHistory:
    """Its pod by name, and how many of its pods in a row (this one too, once it has gone) did not last."""

    pod: str
    short_lived: int = 0
    running_since_s: float | None = None
    ended_at_s: float | None = None
    """When it was first seen to go; like `running_since_s` by the monotonic clock."""
    ended_time_s: float | None = None
    """The same moment by the wall clock, for messages."""

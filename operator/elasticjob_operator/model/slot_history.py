"""How it went with one slot's pods: a record that `policy.churn` makes and reads, and the ledger keeps."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """Its pod by name, and how many of its pods in a row (this one too, once it has gone) did not last."""

    pod: str
    brief: int = 0
    runs_since_s: float | None = None
    over_at_s: float | None = None
    """When it was first seen to go; like `runs_since_s` by the monotonic clock."""
    over_time_s: float | None = None
    """The same moment by the wall clock, for messages."""

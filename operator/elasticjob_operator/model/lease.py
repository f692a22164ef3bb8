"""The Lease of the operator's election, as a record; `cluster.lease_lock` reads and writes it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The fields of a Lease that decide, as last read; its times are left out."""

    holder: str
    duration_s: float
    version: str
    """The resourceVersion, which changes with every renewal."""

"""PURE: how much of etcd a job may take: far more than its agents ever write, and little enough for all others.

Agents keep to a bound that goes with the job's size (docs/security.md). A job beyond twice of it is written to by
somebody who has its certificate and is no agent; etcd itself knows a quota for all of it and none for a user.
"""

from dataclasses import dataclass

from elasticjob_api.job import nproc_per_node
from elasticjob_api.spec import JobSpec

KIB, MIB = 1 << 10, 1 << 20
LEAST = 64 * MIB
"""A job that is made small was large before, and what it left is still there."""
WRITTEN = 4
"""Times of what it may hold it may write in `WINDOW_S`: until then etcd keeps what was overwritten."""
_LEFT = 1000
"""Nodes that have left or were lost in a job's life."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """In bytes of keys and values."""

    held: int
    written: int


def allowance(spec: JobSpec) -> Allowance:
    """Of a job with this spec."""
    nodes = spec.highest
    bound = 64 * KIB + 32 * KIB * nodes + 80 * KIB * nodes * nproc_per_node(spec) + KIB * _LEFT
    held = max(LEAST, 2 * bound)
    return Allowance(held, WRITTEN * held)

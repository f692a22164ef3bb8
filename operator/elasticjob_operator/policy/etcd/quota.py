"""PURE: how much a job may take of etcd, and of the operator's memory: far more than its agents ever write.

Agents keep to a bound that goes with the job's size (docs/security.md). A job beyond twice of it is written to by
somebody who has its certificate and is no agent; etcd itself knows a quota for all of it and none for a user.

The size is that of the pods that are there. What a job claims (maxReplicas, its map, its world) allows nothing.
"""

from dataclasses import dataclass
from typing import Any

from elasticjob_api.job import nproc_per_node
from elasticjob_api.keys import Kind
from elasticjob_api.spec import JobSpec

KIB, MIB = 1 << 10, 1 << 20
MIN_BYTES, MAX_BYTES = 64 * MIB, 1024 * MIB
"""Of etcd. A job that is made small was large before, and what it left is still there; etcd's quota is 2 GiB."""
WRITTEN = 4
"""Times of what it may hold it may write in `WINDOW_S`: until then etcd keeps what was overwritten."""
MIN_MEMORY = 48 * MIB
"""What 1,000 nodes leave behind whose 8 workers each have failed in the last two rounds."""
MIN_KEYS = 20_000
"""Nodes that have left or were lost in a job's life have a key each."""
FAILURES_KEPT_WHOLE = 64
"""Of a round, the first: the root cause is one of them. Of the others the operator keeps the codes, no output."""
REDUCED = 2 * KIB
"""Bytes of such a failure at most."""
USUAL_NPROC, MIN_WORKERS = 8, 64
KEY_MEMORY = KIB
"""What a key costs the operator whatever it holds: names, revisions, places in tables."""
_LEFT = 1000
_ENLARGED: dict[Kind, int] = {"spec": 12, "world": 12, "members": 12, "expected": 12, "report": 2}
"""A short text in one of these becomes an object; a report is kept as bytes and as a record."""


@dataclass(frozen=True, slots=True)
class EtcdQuota:
    """`held` and `written` are bytes of keys and values in etcd, `memory` bytes of the operator."""

    stored: int
    written: int
    keys: int = MIN_KEYS
    memory: int = MIN_MEMORY
    bound: int = MIN_MEMORY
    """What agents of a job of its size make the operator keep at the very most."""
    workers: int = MIN_WORKERS
    """Of a node; more than it has, for a pod may be older than the template."""


def quota(spec: JobSpec, *, nodes: int) -> EtcdQuota:
    """Return what a job with this spec may take, so many of whose pods are there."""
    return allowed_bytes(max(1, nodes), nproc_per_node(spec))


def unread_quota(spec: dict[str, Any], *, nodes: int) -> EtcdQuota:
    """Return the same for a spec as the API server shows it, before it was read."""
    nproc = spec.get("nprocPerNode")
    return allowed_bytes(max(1, nodes), nproc if isinstance(nproc, int) and nproc > 0 else USUAL_NPROC)


def allowed_bytes(nodes: int, nproc: int) -> EtcdQuota:
    """Return twice of what the agents of so many nodes write at most."""
    ranks = nodes * nproc
    written = 64 * KIB + 32 * KIB * nodes + 80 * KIB * ranks + KIB * _LEFT
    held = min(MAX_BYTES, max(MIN_BYTES, 2 * written))
    keys = MIN_KEYS + 2 * (7 + 4 * nodes + 2 * ranks)
    bound = _memory_bound(nodes, nproc)
    return EtcdQuota(held, WRITTEN * held, keys, max(MIN_MEMORY, 2 * bound), bound, max(MIN_WORKERS, 2 * nproc))


def _memory_bound(nodes: int, nproc: int) -> int:
    """Return what `memory_of` gives at most for all that agents write: records of the job, reports, failures."""
    whole, reduced = min(nodes * nproc, FAILURES_KEPT_WHOLE), max(0, nodes * nproc - FAILURES_KEPT_WHOLE)
    failures = 2 * (whole * (40 * KIB + KEY_MEMORY) + reduced * (2 * KIB + KEY_MEMORY))
    return 256 * KIB + nodes * (8 * KIB + 2 * report_bytes(nproc)) + failures


def report_bytes(workers: int) -> int:
    """Return the most bytes of a report of so many workers: 64 metrics that JSON makes six times as long."""
    return min(64 * KIB, 24 * KIB + 256 * workers)


def memory_of(kind: Kind | None, size: int) -> int:
    """Return about how much of the operator's memory a key with so many bytes takes."""
    return KEY_MEMORY + size * (_ENLARGED.get(kind, 1) if kind else 1)

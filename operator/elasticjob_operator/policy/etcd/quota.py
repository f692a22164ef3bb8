"""The quota of a job in etcd and in the operator's memory; far more than its agents ever write.

Agents keep to a limit that depends on the job's size (docs/security.md). If a job exceeds twice that limit, a client
other than an agent writes with its certificate. etcd itself has a quota for all data, but none for a user.

The size is the number of pods that exist. The job's own claims (maxReplicas, slot map, rendezvous state) do not raise
the quota.
"""

from dataclasses import dataclass
from typing import Any

from elasticjob_api.job import nproc_per_node
from elasticjob_api.keys import Kind
from elasticjob_api.spec import JobSpec

KIB, MIB = 1 << 10, 1 << 20
MIN_BYTES, MAX_BYTES = 64 * MIB, 1024 * MIB
"""Limits of the quota in etcd, whose own quota is 2 GiB. A job may have been larger before, and its old data remain."""
WRITTEN = 4
"""Factor from stored bytes to bytes written within `etcd_usage.WINDOW_S`: etcd keeps overwritten values that long."""
MIN_MEMORY = 48 * MIB
"""Enough for 1,000 nodes with 8 workers each that have all failed in the last two rounds."""
MIN_KEYS = 20_000
"""Enough keys for all nodes that leave or are lost while a job exists; each leaves one key."""
FAILURES_KEPT_WHOLE = 64
"""Failures of a round that are kept with their output: the first ones, with the root cause. Others keep their codes."""
REDUCED = 2 * KIB
"""Most bytes of a failure without its output."""
USUAL_NPROC, MIN_WORKERS = 8, 64
KEY_MEMORY = KIB
"""Operator memory for any key in addition to its value: names, revisions, table entries."""
_LEFT = 1000
_ENLARGED: dict[Kind, int] = {"spec": 12, "world": 12, "members": 12, "expected": 12, "report": 2, "samples": 2}
"""Factor from bytes in etcd to bytes of memory: text becomes objects."""


@dataclass(frozen=True, slots=True)
class EtcdQuota:
    """The quota of one job.

    `stored` and `written` are bytes of keys and values in etcd, `memory` is bytes of operator memory.
    """

    stored: int
    written: int
    keys: int = MIN_KEYS
    memory: int = MIN_MEMORY
    bound: int = MIN_MEMORY
    """Most bytes of operator memory that the agents of a job of this size need."""
    workers: int = MIN_WORKERS
    """Most workers of a node in a report; above the spec's number, because a pod may be older than the template."""


def quota(spec: JobSpec, *, nodes: int) -> EtcdQuota:
    """Return the quota of a job with this spec and this number of existing pods."""
    return allowed_bytes(max(1, nodes), nproc_per_node(spec))


def unread_quota(spec: dict[str, Any], *, nodes: int) -> EtcdQuota:
    """Return the same for a spec as the API server returned it, before it is parsed."""
    nproc = spec.get("nprocPerNode")
    return allowed_bytes(max(1, nodes), nproc if isinstance(nproc, int) and nproc > 0 else USUAL_NPROC)


def allowed_bytes(nodes: int, nproc: int) -> EtcdQuota:
    """Return twice the most that the agents of this number of nodes write."""
    ranks = nodes * nproc
    written = 64 * KIB + 32 * KIB * nodes + 80 * KIB * ranks + KIB * _LEFT
    held = min(MAX_BYTES, max(MIN_BYTES, 2 * written))
    keys = MIN_KEYS + 2 * (7 + 5 * nodes + 2 * ranks)
    bound = _memory_bound(nodes, nproc)
    return EtcdQuota(held, WRITTEN * held, keys, max(MIN_MEMORY, 2 * bound), bound, max(MIN_WORKERS, 2 * nproc))


def _memory_bound(nodes: int, nproc: int) -> int:
    """Return the most memory, by `memory_of`, for everything that agents write: job records, reports, failures."""
    whole, reduced = min(nodes * nproc, FAILURES_KEPT_WHOLE), max(0, nodes * nproc - FAILURES_KEPT_WHOLE)
    failures = 2 * (whole * (40 * KIB + KEY_MEMORY) + reduced * (2 * KIB + KEY_MEMORY))
    return 256 * KIB + nodes * (8 * KIB + 2 * report_bytes(nproc)) + failures


def report_bytes(workers: int) -> int:
    """Return the most bytes of a report of this number of workers, and also of a report and its samples together."""
    return min(64 * KIB, 24 * KIB + 256 * workers)  # JSON may escape its 64 metrics to six times their length


def memory_of(kind: Kind | None, size: int) -> int:
    """Return about how many bytes of operator memory a key with a value of this size takes."""
    return KEY_MEMORY + size * (_ENLARGED.get(kind, 1) if kind else 1)

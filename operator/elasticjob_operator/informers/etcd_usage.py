"""Each job's bytes in etcd, its recent writes, and the memory that the operator uses for its records.

Every key that a list or a watch delivers is counted here once. A job that exceeds its quota stays in excess until its
keys are deleted and its writes are older than the window. Meanwhile its records are ignored and not cached.

All jobs together have a memory budget. If they exceed it, the job that uses the most for its size is expelled.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from elasticjob_api.keys import ParsedKey
from elasticjob_etcd.interface import KeyValue
from elasticjob_operator.model import job_key
from elasticjob_operator.model.job_key import JobKey
from elasticjob_operator.policy.etcd.quota import (
    FAILURES_KEPT_WHOLE,
    MIB,
    MIN_BYTES,
    REDUCED,
    WRITTEN,
    EtcdQuota,
    memory_of,
)

WINDOW_S = 300.0
"""Time for which etcd keeps overwritten values (`--auto-compaction-retention` of the chart)."""
UNKNOWN = EtcdQuota(stored=MIN_BYTES, written=WRITTEN * MIN_BYTES)
"""Quota of a job that the API server has not shown."""
BUDGET = 128 * MIB
"""Bytes of memory for the records of all jobs: a quarter of the operator's memory in the chart."""
FAIR_SHARE = 0.5
"""A job is not expelled while it uses at most this share of the records that its agents could write."""
_CHECK_AGAIN_S, _LOG_AGAIN_S = 1.0, 60.0
_MAX_KEY_LENGTH = 512
"""Bytes of a key that is parsed; a prefix has at most 400, and the rest of a key at most 40."""

log = logging.getLogger(__name__)


class _Size(NamedTuple):
    """The size of one key: bytes in etcd, bytes of the operator's memory, and the round of a failure."""

    stored: int = 0
    cached: int = 0
    round: int = 0


@dataclass(slots=True)
class _Job:
    allowance: EtcdQuota = UNKNOWN
    checked_s: float = float("-inf")
    """Time of the last request for the job's quota."""
    sizes: dict[int, "_Size"] = field(default_factory=dict)
    """Sizes by hash of the key; the key itself may be longer than its value."""
    stored: int = 0
    cached: int = 0
    rejected: int = 0
    """Bytes beyond the quota for stored keys, since the job last had no keys."""
    written: int = 0
    written_before: int = 0
    """Bytes written in this half of the window, and in the half before."""
    reduced: bool = False
    """Whether a record was not cached that a larger quota would admit."""
    quota_exceeded: str = ""
    """Why no record is cached, since the job last had no keys; empty if records are cached."""
    failures: dict[int, set[int]] = field(default_factory=dict)
    """Round → hashes of the failures that are cached whole."""


class EtcdUsage:
    """The usage of all jobs.

    `clock` is monotonic, in seconds. `known` returns the quota of a job that was not reconciled yet.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        known: Callable[[JobKey], EtcdQuota | None] = lambda _: None,
        *,
        budget: int = BUDGET,
    ) -> None:
        self._clock = clock
        self._known = known
        self._budget = budget
        self._jobs: dict[JobKey, _Job] = {}
        self._cached = 0
        self._since_s = clock()
        self._logged_s = self._fair_until_s = float("-inf")
        self._over_quota: set[JobKey] = set()
        self._must_list = False

    @property
    def cached(self) -> int:
        """Approximate memory of the records of all jobs, in bytes."""
        return self._cached

    def allow(self, key: JobKey, quota: EtcdQuota) -> None:
        """Set the job's quota."""
        if (job := self._jobs.get(key)) is None:
            return
        before, job.allowance = job.allowance, _larger(job.allowance, quota)
        if job.reduced and (before == UNKNOWN or job.allowance.memory > before.memory):
            job.quota_exceeded, self._must_list = "", True
        job.checked_s = self._clock()

    def drain_over_quota(self) -> set[JobKey]:
        """Return the jobs that were expelled since the last call; the caller can free their records."""
        expelled, self._over_quota = self._over_quota, set()
        return expelled

    def drain_must_list(self) -> bool:
        """Return whether, since the last call, a quota grew so that a new list would deliver more records."""
        must, self._must_list = self._must_list, False
        return must

    def forget(self) -> None:
        """Reset the counts of keys before a new list of etcd; counts of written bytes remain."""
        self._cached, self._must_list = 0, False
        for job in self._jobs.values():
            job.sizes, job.stored, job.cached, job.rejected = {}, 0, 0, 0
            job.reduced, job.quota_exceeded, job.failures = False, "", {}

    def account_write(self, kv: KeyValue) -> bool:
        """Count a written key; return whether it may be cached."""
        self._rotate_window()
        if (key := job_key.key_of_etcd_key(kv.key)) is None:
            return False
        job = self._job(key)
        job.written += _size(kv)
        return self._cache(key, job, kv)

    def account_stored(self, kv: KeyValue) -> bool:
        """Count a listed key; return whether it may be cached."""
        key = job_key.key_of_etcd_key(kv.key)
        return key is not None and self._cache(key, self._job(key), kv)

    def account_delete(self, etcd_key: str) -> None:
        """Count the deletion of a key."""
        key = job_key.key_of_etcd_key(etcd_key)
        if key is None or (job := self._jobs.get(key)) is None:
            return
        size = job.sizes.pop(hash(etcd_key), _Size())
        job.stored -= size.stored
        self._add(job, -size.cached)
        if whole := job.failures.get(size.round):
            whole.discard(hash(etcd_key))
            if not whole:  # a tenant may write and delete any number of rounds
                del job.failures[size.round]
        if not job.sizes:
            job.rejected, job.reduced, job.quota_exceeded, job.failures = 0, False, "", {}

    def has_keys(self, key: JobKey) -> bool:
        """Return whether etcd has a key of the job, cached or not."""
        job = self._jobs.get(key, _NOTHING)
        return bool(job.sizes or job.rejected)

    def keys(self) -> set[JobKey]:
        """Return the jobs that have keys in etcd."""
        return {key for key, job in self._jobs.items() if job.sizes or job.rejected}

    def rounds(self, key: JobKey) -> int:
        """Return the number of the job's rounds of which a failure is cached whole."""
        return len(self._jobs.get(key, _NOTHING).failures)

    def allowance(self, key: JobKey) -> EtcdQuota:
        """Return the job's quota."""
        return self._jobs.get(key, _NOTHING).allowance

    def must_reduce(self, kv: KeyValue) -> bool:
        """Return whether a failure is cached in reduced form: it is long, and not among the first of its round."""
        key, at = job_key.key_of_etcd_key(kv.key), _parsed(kv.key)
        if key is None or at is None or at.kind != "failure" or len(kv.value) <= REDUCED:
            return False
        return hash(kv.key) not in self._job(key).failures.get(at.round or 0, set())

    def violation(self, key: JobKey) -> str:
        """Return a description of the job's excess over its quota; empty without one."""
        self._rotate_window()
        job = self._jobs.get(key, _NOTHING)
        return (
            job.quota_exceeded
            or _describe_excess(job.stored + job.rejected, job.allowance.stored, "are below its prefix")
            or _describe_excess(
                job.written + job.written_before, job.allowance.written, f"were written within {WINDOW_S:g} s"
            )
            or _describe_count(len(job.sizes), job.allowance.keys)
        )

    def _cache(self, key: JobKey, job: _Job, kv: KeyValue) -> bool:
        name, size = hash(kv.key), _size(kv)
        before = job.sizes.get(name, _Size())
        held = job.stored - before.stored + size
        is_one_more = name not in job.sizes and len(job.sizes) > job.allowance.keys
        if (held > job.allowance.stored or is_one_more) and not self._update_allowance(key, job):
            job.rejected += size
            return False
        at = _parsed(kv.key)
        memory = self._memory_of(job, at, kv)
        if job.cached - before.cached + memory > job.allowance.memory and not self._update_allowance(key, job):
            self._reduce(key, job)
        if job.reduced or job.quota_exceeded:
            memory = 0
        job.stored = held
        job.sizes[name] = _Size(size, memory, (at and at.round) or 0)
        self._add(job, memory - before.cached)
        if self._cached > self._budget:
            self._free_memory()
        return memory > 0 and not job.quota_exceeded

    def _memory_of(self, job: _Job, at: ParsedKey | None, kv: KeyValue) -> int:
        """Return the memory that this key needs in the cache; 0 for a key that the operator does not read."""
        if at is None or at.kind in _NOT_READ:
            return 0
        if at.kind == "failure":
            first = job.failures.get(at.round or 0, set())
            if len(first) < FAILURES_KEPT_WHOLE and not (job.reduced or job.quota_exceeded):
                first.add(hash(kv.key))
                job.failures[at.round or 0] = first
            return memory_of(at.kind, _size(kv) if hash(kv.key) in first else min(REDUCED, _size(kv)))
        return memory_of(at.kind, _size(kv))

    def _update_allowance(self, key: JobKey, job: _Job) -> bool:
        """Update the job's quota, unless it was read a moment ago; return whether it has grown with the job's pods."""
        if self._clock() < job.checked_s + _CHECK_AGAIN_S:
            return False
        before = job.allowance
        self._check(key, job)
        return job.allowance.memory > before.memory or job.allowance.stored > before.stored

    def _check(self, key: JobKey, job: _Job) -> None:
        job.checked_s = self._clock()
        if (quota := self._known(key)) is not None:
            job.allowance = _larger(job.allowance, quota)

    def _reduce(self, key: JobKey, job: _Job) -> None:
        """Cache no more records of the job; expel it if its quota is known."""
        job.reduced = True
        if job.allowance != UNKNOWN:
            most = job.allowance.memory // MIB
            self._mark_over_quota(
                key, job, f"its records take more than {most} MiB of the operator's memory, which its size allows"
            )

    def _free_memory(self) -> None:
        """Expel the jobs that use the most for their size, until the budget holds or no job exceeds `FAIR_SHARE`."""
        if self._clock() < self._fair_until_s:
            return
        while self._cached > self._budget:
            key, job = max(self._jobs.items(), key=lambda item: _share_of(item[1]))
            if _share_of(job) <= FAIR_SHARE:
                self._fair_until_s = self._clock() + _CHECK_AGAIN_S
                self._log_pressure()
                return
            usage = f"its records take {job.cached // MIB} MiB of the operator's memory, the most for its size"
            self._mark_over_quota(key, job, f"{usage}, and all jobs together may have {self._budget // MIB} MiB")

    def _log_pressure(self) -> None:
        if self._clock() >= self._logged_s + _LOG_AGAIN_S:
            self._logged_s = self._clock()
            cached, budget = self._cached // MIB, self._budget // MIB
            log.warning("the records of all jobs take %d MiB, more than --records-memory (%d MiB)", cached, budget)

    def _mark_over_quota(self, key: JobKey, job: _Job, reason: str) -> None:
        log.warning("%s: the operator ignores its records: %s", key, reason)
        job.quota_exceeded = reason
        self._over_quota.add(key)
        self._add(job, -job.cached)
        job.sizes = {name: size._replace(cached=0) for name, size in job.sizes.items()}

    def _add(self, job: _Job, memory: int) -> None:
        job.cached += memory
        self._cached += memory

    def _job(self, key: JobKey) -> _Job:
        if (job := self._jobs.get(key)) is None:
            job = self._jobs[key] = _Job()
            self._check(key, job)
        return job

    def _rotate_window(self) -> None:
        """Forget bytes written before the last half of the window, and jobs without keys and writes."""
        halves = int((self._clock() - self._since_s) / (WINDOW_S / 2))
        if not halves:
            return
        self._since_s = self._clock()
        for job in self._jobs.values():
            job.written, job.written_before = 0, job.written if halves == 1 else 0
        self._jobs = {key: job for key, job in self._jobs.items() if job.sizes or job.written_before}


_NOTHING = _Job()
_NOT_READ = frozenset({"closer", "terms", "link", "held", "imports", "earlier"})


def _parsed(etcd_key: str) -> ParsedKey | None:
    return job_key.parse(etcd_key) if len(etcd_key) <= _MAX_KEY_LENGTH else None


def _larger(one: EtcdQuota, other: EtcdQuota) -> EtcdQuota:
    """Return the new quota `other`, with no limit below that of `one`."""
    # After a reduction of the job its earlier keys still exist.
    if one == UNKNOWN:
        return other
    held, memory, keys = max(one.stored, other.stored), max(one.memory, other.memory), max(one.keys, other.keys)
    return replace(
        other, stored=held, written=WRITTEN * held, memory=memory, keys=keys, bound=max(one.bound, other.bound)
    )


def _share_of(job: _Job) -> float:
    """Return the share that the job uses of the most that its agents could write."""
    return job.cached / job.allowance.bound


def _size(kv: KeyValue) -> int:
    return len(kv.key) + len(kv.value)


def _describe_excess(used: int, most: int, predicate: str) -> str:
    if used <= most:
        return ""
    return f"{-(-used // MIB)} MiB {predicate} in etcd, and a job of its size may have {most // MIB} MiB"


def _describe_count(keys: int, most: int) -> str:
    return f"{keys} keys are below its prefix in etcd, and a job of its size may have {most}" if keys > most else ""

"""What each job holds in etcd and has written lately, and what of it the operator keeps in its own memory.

Everything that is seen of etcd passes here once. A job that was beyond its allowance stays so until nothing of it is
left and its writes are forgotten. Meanwhile its records are ignored, and nothing of it is kept.

All jobs together have a budget. When they take more, the job goes that takes the most for its size.
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
"""As long as etcd keeps what was overwritten (`--auto-compaction-retention` of the chart)."""
UNKNOWN = EtcdQuota(stored=MIN_BYTES, written=WRITTEN * MIN_BYTES)
"""Of jobs that the API server has not shown."""
BUDGET = 128 * MIB
"""Of the operator's memory for the records of all jobs: a quarter of what the chart gives it."""
FAIR_SHARE = 0.5
"""A job that takes no more than this share of what its agents could write is never expelled for the others' sake."""
_CHECK_AGAIN_S, _LOG_AGAIN_S = 1.0, 60.0
_MAX_KEY_LENGTH = 512
"""Bytes; a prefix has 400 at most, and no key of ours is longer than 40 beyond it."""

log = logging.getLogger(__name__)


class _Size(NamedTuple):
    """Of one key: bytes in etcd, bytes of memory that the operator keeps, and the round of a failure."""

    stored: int = 0
    cached: int = 0
    round: int = 0


@dataclass(slots=True)
class _Job:
    allowance: EtcdQuota = UNKNOWN
    checked_s: float = float("-inf")
    """When it was asked what the job may take."""
    sizes: dict[int, "_Size"] = field(default_factory=dict)
    """By hash of the key: a name may be longer than its value."""
    stored: int = 0
    cached: int = 0
    rejected: int = 0
    """Bytes that were not counted as held, since it last held nothing."""
    written: int = 0
    written_before: int = 0
    """In this half of the window, and in the one before."""
    reduced: bool = False
    """Something was not kept that a larger allowance would have kept."""
    quota_exceeded: str = ""
    """Why nothing of it is kept, since it last held nothing."""
    failures: dict[int, set[int]] = field(default_factory=dict)
    """Round → hashes of the failures that are kept whole."""


class EtcdUsage:
    """All jobs; `clock` is monotonic, in seconds; `known` tells what a job may take that was not looked at yet."""

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
        """About how much memory the records of all jobs take."""
        return self._cached

    def allow(self, key: JobKey, quota: EtcdQuota) -> None:
        """From now on this is what the job may take."""
        if (job := self._jobs.get(key)) is None:
            return
        before, job.allowance = job.allowance, _larger(job.allowance, quota)
        if job.reduced and (before == UNKNOWN or job.allowance.memory > before.memory):
            job.quota_exceeded, self._must_list = "", True
        job.checked_s = self._clock()

    def drain_over_quota(self) -> set[JobKey]:
        """Return the jobs that were expelled since the last call: what is in memory of them can go."""
        expelled, self._over_quota = self._over_quota, set()
        return expelled

    def drain_must_list(self) -> bool:
        """Return whether something is missing that a list would bring, since the last call."""
        must, self._must_list = self._must_list, False
        return must

    def forget(self) -> None:
        """Begin a new list of etcd: its keys are counted again; the bytes written stay."""
        self._cached, self._must_list = 0, False
        for job in self._jobs.values():
            job.sizes, job.stored, job.cached, job.rejected = {}, 0, 0, 0
            job.reduced, job.quota_exceeded, job.failures = False, "", {}

    def account_write(self, kv: KeyValue) -> bool:
        """A key was written; whether it may be kept."""
        self._rotate_window()
        if (key := job_key.key_of_etcd_key(kv.key)) is None:
            return False
        job = self._job(key)
        job.written += _size(kv)
        return self._cache(key, job, kv)

    def account_stored(self, kv: KeyValue) -> bool:
        """A key is there, as a list says; whether it may be kept."""
        key = job_key.key_of_etcd_key(kv.key)
        return key is not None and self._cache(key, self._job(key), kv)

    def account_delete(self, etcd_key: str) -> None:
        """A key was deleted."""
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
        """Whether etcd holds anything of the job, kept or not."""
        job = self._jobs.get(key, _NOTHING)
        return bool(job.sizes or job.rejected)

    def keys(self) -> set[JobKey]:
        """Return the jobs of which etcd holds anything."""
        return {key for key, job in self._jobs.items() if job.sizes or job.rejected}

    def rounds(self, key: JobKey) -> int:
        """Return of how many rounds of the job a failure is kept whole."""
        return len(self._jobs.get(key, _NOTHING).failures)

    def allowance(self, key: JobKey) -> EtcdQuota:
        """Return what the job may take."""
        return self._jobs.get(key, _NOTHING).allowance

    def must_reduce(self, kv: KeyValue) -> bool:
        """Whether only the codes of this failure are kept: it is long, and was not among the first of its round."""
        key, at = job_key.key_of_etcd_key(kv.key), _parsed(kv.key)
        if key is None or at is None or at.kind != "failure" or len(kv.value) <= REDUCED:
            return False
        return hash(kv.key) not in self._job(key).failures.get(at.round or 0, set())

    def violation(self, key: JobKey) -> str:
        """What is beyond its allowance, in words; empty for all but a job that is misused."""
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
        if (held > job.allowance.stored or is_one_more) and not self._has_grown(key, job):
            job.rejected += size
            return False
        at = _parsed(kv.key)
        memory = self._memory_of(job, at, kv)
        if job.cached - before.cached + memory > job.allowance.memory and not self._has_grown(key, job):
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
        """Return what it costs to keep this key; 0 for one that the operator does not read."""
        if at is None or at.kind in _NOT_READ:
            return 0
        if at.kind == "failure":
            first = job.failures.get(at.round or 0, set())
            if len(first) < FAILURES_KEPT_WHOLE and not (job.reduced or job.quota_exceeded):
                first.add(hash(kv.key))
                job.failures[at.round or 0] = first
            return memory_of(at.kind, _size(kv) if hash(kv.key) in first else min(REDUCED, _size(kv)))
        return memory_of(at.kind, _size(kv))

    def _has_grown(self, key: JobKey, job: _Job) -> bool:
        """Whether more of its pods are there now than when it was last asked what the job may take."""
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
        """Nothing more is kept; a job that the API server shows is misused, of another it is not known yet."""
        job.reduced = True
        if job.allowance != UNKNOWN:
            most = job.allowance.memory // MIB
            self._mark_over_quota(
                key, job, f"its records take more than {most} MiB of the operator's memory, which its size allows"
            )

    def _free_memory(self) -> None:
        """Expel the jobs that take the most for their size, as far as any takes more than is fair."""
        if self._clock() < self._fair_until_s:
            return
        while self._cached > self._budget:
            key, job = max(self._jobs.items(), key=lambda item: _share_of(item[1]))
            if _share_of(job) <= FAIR_SHARE:
                self._fair_until_s = self._clock() + _CHECK_AGAIN_S
                self._log_pressure()
                return
            taken = f"its records take {job.cached // MIB} MiB of the operator's memory, the most for its size"
            self._mark_over_quota(key, job, f"{taken}, and all jobs together may have {self._budget // MIB} MiB")

    def _log_pressure(self) -> None:
        if self._clock() >= self._logged_s + _LOG_AGAIN_S:
            self._logged_s = self._clock()
            kept, budget = self._cached // MIB, self._budget // MIB
            log.warning("the records of all jobs take %d MiB, more than --records-memory (%d MiB)", kept, budget)

    def _mark_over_quota(self, key: JobKey, job: _Job, why: str) -> None:
        log.warning("%s: nothing of its records is kept: %s", key, why)
        job.quota_exceeded = why
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
        """What was written before the last half of the window is forgotten, and jobs of which nothing is left."""
        halves = int((self._clock() - self._since_s) / (WINDOW_S / 2))
        if not halves:
            return
        self._since_s = self._clock()
        for job in self._jobs.values():
            job.written, job.written_before = 0, job.written if halves == 1 else 0
        self._jobs = {key: job for key, job in self._jobs.items() if job.sizes or job.written_before}


_NOTHING = _Job()
_NOT_READ = frozenset({"closer", "terms", "link"})


def _parsed(etcd_key: str) -> ParsedKey | None:
    return job_key.parse(etcd_key) if len(etcd_key) <= _MAX_KEY_LENGTH else None


def _larger(one: EtcdQuota, other: EtcdQuota) -> EtcdQuota:
    """Return the new one (`other`), but no less than was known before: what a job has left is still there."""
    if one == UNKNOWN:
        return other
    held, memory, keys = max(one.stored, other.stored), max(one.memory, other.memory), max(one.keys, other.keys)
    return replace(
        other, stored=held, written=WRITTEN * held, memory=memory, keys=keys, bound=max(one.bound, other.bound)
    )


def _share_of(job: _Job) -> float:
    """Return how much it takes of what its agents could write at most."""
    return job.cached / job.allowance.bound


def _size(kv: KeyValue) -> int:
    return len(kv.key) + len(kv.value)


def _describe_excess(taken: int, most: int, what: str) -> str:
    if taken <= most:
        return ""
    return f"{-(-taken // MIB)} MiB {what} in etcd, and a job of its size may have {most // MIB} MiB"


def _describe_count(keys: int, most: int) -> str:
    return f"{keys} keys are below its prefix in etcd, and a job of its size may have {most}" if keys > most else ""

"""What each job holds in etcd, and has written lately; and a fuse: what is beyond its allowance is not kept in memory.

Everything that is seen of etcd passes here once. A job that was beyond its allowance stays so until nothing of it is
left and its writes are forgotten; what it says of itself counts for nothing meanwhile.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from elasticjob_etcd.protocol import KeyValue
from elasticjob_operator import jobkey
from elasticjob_operator.jobkey import JobKey
from elasticjob_operator.policy.footprint import MIB, Allowance

WINDOW_S = 300.0
"""As long as etcd keeps what was overwritten (`--auto-compaction-retention` of the chart)."""
UNKNOWN = Allowance(512 * MIB, 2048 * MIB)
"""Of jobs that have not been looked at yet: large ones must not lose anything at the operator's start."""


@dataclass(slots=True)
class _Job:
    allowance: Allowance = UNKNOWN
    sizes: dict[str, int] = field(default_factory=dict)
    held: int = 0
    refused: int = 0
    """Bytes that were not kept, since it last held nothing."""
    written: int = 0
    written_before: int = 0
    """In this half of the window, and in the one before."""


class Footprints:
    """All jobs; `clock` is monotonic, in seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._jobs: dict[JobKey, _Job] = {}
        self._since_s = clock()

    def allow(self, key: JobKey, allowance: Allowance) -> None:
        """From now on this is what the job may take."""
        if (job := self._jobs.get(key)) is not None:
            job.allowance = allowance

    def forget(self) -> None:
        """Etcd is listed anew: what it holds is told again; what was written stays."""
        for job in self._jobs.values():
            job.sizes, job.held, job.refused = {}, 0, 0

    def wrote(self, kv: KeyValue) -> bool:
        """A key was written; whether it may be kept."""
        self._age()
        if (job := self._of(kv.key)) is None:
            return True
        job.written += _size(kv)
        return _keep(job, kv)

    def holds(self, kv: KeyValue) -> bool:
        """A key is there, as a list says; whether it may be kept."""
        job = self._of(kv.key)
        return job is None or _keep(job, kv)

    def dropped(self, etcd_key: str) -> None:
        """A key was deleted."""
        key = jobkey.of_etcd_key(etcd_key)
        if key is not None and (job := self._jobs.get(key)) is not None:
            job.held -= job.sizes.pop(etcd_key, 0)
            job.refused = job.refused if job.sizes else 0

    def excess(self, key: JobKey) -> str:
        """What is beyond its allowance, in words; empty for all but a job that is misused."""
        self._age()
        job = self._jobs.get(key, _NOTHING)
        return _excess(job.held + job.refused, job.allowance.held, "are below its prefix") or _excess(
            job.written + job.written_before, job.allowance.written, f"were written within {WINDOW_S:g} s"
        )

    def _of(self, etcd_key: str) -> _Job | None:
        if (key := jobkey.of_etcd_key(etcd_key)) is None:
            return None
        if (job := self._jobs.get(key)) is None:
            job = self._jobs[key] = _Job()
        return job

    def _age(self) -> None:
        """What was written before the last half of the window is forgotten, and jobs of which nothing is left."""
        halves = int((self._clock() - self._since_s) / (WINDOW_S / 2))
        if not halves:
            return
        self._since_s = self._clock()
        for job in self._jobs.values():
            job.written, job.written_before = 0, job.written if halves == 1 else 0
        self._jobs = {key: job for key, job in self._jobs.items() if job.sizes or job.written_before}


_NOTHING = _Job()


def _keep(job: _Job, kv: KeyValue) -> bool:
    size = _size(kv)
    held = job.held - job.sizes.get(kv.key, 0) + size
    if held > job.allowance.held:
        job.refused += size
        return False
    job.held = held
    job.sizes[kv.key] = size
    return True


def _size(kv: KeyValue) -> int:
    return len(kv.key) + len(kv.value)


def _excess(taken: int, most: int, what: str) -> str:
    if taken <= most:
        return ""
    return f"{-(-taken // MIB)} MiB {what} in etcd, and a job of its size may have {most // MIB} MiB"

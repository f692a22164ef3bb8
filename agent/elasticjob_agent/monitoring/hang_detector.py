"""The rule by which a job is suspected to hang. A suspicion is shown, with stacks; it stops nothing.

For the whole of progressDeadlineSeconds no worker of the node has written or reported anything. And each worker was
either idle (it waits for a peer) or kept a core busy without a pause (it spins for one). A worker whose load is between
these is not suspected. A worker that only computes must report progress or send heartbeats now and then.
"""

from dataclasses import dataclass

_IDLE_SHARE = 0.02
"""Share of one core below which a worker counts as idle."""
_SPINNING_SHARE = 0.95
"""Share of one core above which a worker counts as spinning."""


@dataclass(frozen=True, slots=True)
class ActivitySample:
    """Signs of life of a node's workers; each is a count that only grows."""

    round: int
    written_bytes: int
    """Bytes that the workers have written to any file, pipe or socket."""
    progress_count: int
    """Lines of progress and heartbeats."""
    cpu_s: tuple[float, ...]
    """Processor seconds of each worker with its descendants."""


class HangDetector:
    """Compares samples; returns the time since which nothing has moved, once that is long enough."""

    def __init__(self, deadline_s: float) -> None:
        """`deadline_s` is progressDeadlineSeconds."""
        self._deadline_s = deadline_s
        self._since_s = 0.0
        self._last_sample: ActivitySample | None = None

    def observe(self, now_s: float, sample: ActivitySample | None) -> float | None:
        """Return the time (monotonic seconds) since which the workers seem to hang; None if they do not.

        `sample` None: the workers cannot be sampled, or none runs.
        """
        if sample is None or self._last_sample is None or _has_progressed(self._last_sample, sample):
            self._since_s, self._last_sample = now_s, sample
            return None
        silent_s = now_s - self._since_s
        if silent_s < self._deadline_s or not all(
            _is_hanging(share) for share in _cpu_shares(self._last_sample, sample, silent_s)
        ):
            return None
        return self._since_s

    def discount(self, sample: ActivitySample | None) -> None:
        """Take `sample` as the new baseline of writes: the agent caused the writes before it by a dump of stacks."""
        if sample is not None and self._last_sample is not None and sample.round == self._last_sample.round:
            self._last_sample = ActivitySample(
                sample.round, sample.written_bytes, sample.progress_count, self._last_sample.cpu_s
            )


def _has_progressed(before: ActivitySample, now: ActivitySample) -> bool:
    same = (before.round, before.written_bytes, before.progress_count, len(before.cpu_s))
    return same != (now.round, now.written_bytes, now.progress_count, len(now.cpu_s))


def _cpu_shares(before: ActivitySample, now: ActivitySample, over_s: float) -> list[float]:
    return [(after - first) / over_s for first, after in zip(before.cpu_s, now.cpu_s, strict=True)]


def _is_hanging(share: float) -> bool:
    return share < _IDLE_SHARE or share > _SPINNING_SHARE

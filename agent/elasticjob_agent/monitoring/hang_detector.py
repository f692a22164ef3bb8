"""PURE: when is it suspected that a job hangs? A suspicion is shown, with stacks; nothing is stopped because of it.

For the whole of progressDeadlineSeconds no worker of the node has written or reported anything. Each of them has either
done nothing (it waits for a peer) or kept a core busy without a pause (it spins for one). A worker that computes
between silences is not suspected; one that only computes must report or beat now and then.
"""

from dataclasses import dataclass

_IDLE_SHARE = 0.02
"""Share of one core below which a worker does nothing."""
_SPINNING_SHARE = 0.95
"""Share of one core from which on a worker does not pause."""


@dataclass(frozen=True, slots=True)
class ActivitySample:
    """Signs of life of a node's workers, each a count that only grows."""

    round: int
    written_bytes: int
    """Bytes that they have written to anything."""
    progress_count: int
    """Lines of progress and heartbeats."""
    cpu_s: tuple[float, ...]
    """Processor time by worker, its descendants' included."""


class HangDetector:
    """Fed with signs now and then; returns since when nothing has moved, once that is long enough."""

    def __init__(self, deadline_s: float) -> None:
        """`deadline_s` is progressDeadlineSeconds."""
        self._deadline_s = deadline_s
        self._since_s = 0.0
        self._last_sample: ActivitySample | None = None

    def observe(self, now_s: float, sample: ActivitySample | None) -> float | None:
        """Since when (monotonic seconds) the workers are suspected to hang; None while they are not.

        `sample` None: they cannot be seen, or none run.
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
        """What has been written up to now was our own doing (a dump of stacks): it is no sign of life."""
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

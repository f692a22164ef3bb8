"""PURE: when is it suspected that a job hangs? A suspicion is shown, with stacks; nothing is stopped because of it.

For the whole of progressDeadlineSeconds no worker of the node has written or reported anything. Each of them has either
done nothing (it waits for a peer) or kept a core busy without a pause (it spins for one). A worker that computes
between silences is not suspected; one that only computes must report or beat now and then.
"""

from dataclasses import dataclass

_FLAT = 0.02
"""Share of one core below which a worker does nothing."""
_SPINNING = 0.95
"""Share of one core from which on a worker does not pause."""


@dataclass(frozen=True, slots=True)
class Signs:
    """Signs of life of a node's workers, each a count that only grows."""

    round: int
    written: int
    """Bytes that they have written to anything."""
    told: int
    """Lines of progress and heartbeats."""
    cpu_s: tuple[float, ...]
    """Processor time by worker, its descendants' included."""


class HangSuspicion:
    """Fed with signs now and then; returns since when nothing has moved, once that is long enough."""

    def __init__(self, deadline_s: float) -> None:
        """`deadline_s` is progressDeadlineSeconds."""
        self._deadline_s = deadline_s
        self._since_s = 0.0
        self._at_rest: Signs | None = None

    def observe(self, now_s: float, signs: Signs | None) -> float | None:
        """Since when (monotonic seconds) the workers are suspected to hang; None while they are not.

        `signs` None: they cannot be seen, or none run.
        """
        if signs is None or self._at_rest is None or _moved(self._at_rest, signs):
            self._since_s, self._at_rest = now_s, signs
            return None
        silent_s = now_s - self._since_s
        if silent_s < self._deadline_s or not all(_hangs(share) for share in _shares(self._at_rest, signs, silent_s)):
            return None
        return self._since_s

    def discount(self, signs: Signs | None) -> None:
        """What has been written up to now was our own doing (a dump of stacks): it is no sign of life."""
        if signs is not None and self._at_rest is not None and signs.round == self._at_rest.round:
            self._at_rest = Signs(signs.round, signs.written, signs.told, self._at_rest.cpu_s)


def _moved(before: Signs, now: Signs) -> bool:
    same = (before.round, before.written, before.told, len(before.cpu_s))
    return same != (now.round, now.written, now.told, len(now.cpu_s))


def _shares(before: Signs, now: Signs, over_s: float) -> list[float]:
    return [(after - first) / over_s for first, after in zip(before.cpu_s, now.cpu_s, strict=True)]


def _hangs(share: float) -> bool:
    return share < _FLAT or share > _SPINNING

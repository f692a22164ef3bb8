"""PURE: how often pods that failed together count: once, as workers that fail together do.

A bad minute (a file server, a switch, an image that was moved) fails many pods of a healthy job. The first failure of
a batch counts. A pod joins the batch if it was there when that first one failed, and failed within `WINDOW_S` of the
last one. A pod that replaced one of the batch never joins it: else slots that crash by turns would be one batch for
ever.

Failed pods of which the map names another one have been judged. They are kept for their logs, and so they show here
what was counted before, also to a new process: etcd needs no field for it.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from elasticjob_operator.model.pod import Pod

WINDOW_S = 10.0


def batches(failing: Iterable[Pod], judged: Iterable[Pod]) -> int:
    """How many batches the failing pods begin, beside those of the pods that were judged before."""
    before = list(judged)
    return max(0, _count([*before, *failing]) - _count(before))


def _count(pods: Iterable[Pod]) -> int:
    alone, known = 0, []
    for pod in pods:
        if pod.ended_s is None:
            alone += 1  # no kubelet has reported when it ended
        else:
            known.append((pod.ended_s, pod.created_s))
    found: list[_Batch] = []
    for ended_s, created_s in sorted(known):
        if (batch := next((each for each in found if each.includes(created_s, ended_s)), None)) is not None:
            batch.last_s = ended_s
        else:
            found.append(_Batch(ended_s, ended_s))
    return alone + len(found)


@dataclass(slots=True)
class _Batch:
    first_s: float
    last_s: float

    def includes(self, created_s: float, ended_s: float) -> bool:
        return created_s < self.first_s and ended_s - self.last_s <= WINDOW_S

"""Batches of pods that failed together. Each batch counts once, like workers that fail together.

A short fault (a file server, a switch, an image that was moved) fails many pods of a healthy job. The first failure
starts a batch. A pod joins the batch if it existed at that time and failed within `WINDOW_S` of the batch's latest
failure. The replacement of a pod in the batch never joins it. Otherwise slots that crash in turn would be one endless
batch.

A failed pod whose slot has another pod has been counted before. It is kept for its logs. So a new operator process can
also find the earlier count, and etcd needs no field for it.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from elasticjob_operator.model.pod import Pod

WINDOW_S = 10.0  # between two failures of one batch


def batches(failing: Iterable[Pod], counted: Iterable[Pod]) -> int:
    """Return the number of batches that the failing pods add to those of the pods counted before."""
    before = list(counted)
    return max(0, _count([*before, *failing]) - _count(before))


def _count(pods: Iterable[Pod]) -> int:
    alone, known = 0, []
    for pod in pods:
        if pod.ended_s is None:
            alone += 1  # no kubelet has reported the time of its end
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

"""Failed pods that are kept for their logs after their replacement: the last one of each slot, up to a limit per job.

A retained pod needs no mark: it has failed, it is not being deleted, and the slot map does not name it. It is never
counted as a node. It is deleted with the job, by cleanPodPolicy All, by a suspension, or when a later one replaces it.
"""

from collections.abc import Container, Iterable, Iterator

from elasticjob_operator.model.pod import Pod

MAX_RETAINED = 10
"""Most retained pods of one job; the newest are kept."""


def retained_pods(pods: Iterable[Pod], *, named: Container[str]) -> frozenset[str]:
    """Return the names of the pods to keep, among those that the slot map does not name."""
    last: dict[int | None, Pod] = {}
    for pod in sorted(failed_before(pods, named=named), key=_age):
        last.setdefault(pod.slot, pod)
    return frozenset(pod.name for pod in list(last.values())[:MAX_RETAINED])


def failed_before(pods: Iterable[Pod], *, named: Container[str]) -> Iterator[Pod]:
    """Yield the failed pods whose slot has another pod now."""
    failed = (pod for pod in pods if pod.phase == "Failed" and not pod.has_running_sidecar and not pod.terminating)
    return (pod for pod in failed if pod.name not in named)


def _age(pod: Pod) -> tuple[bool, float, str]:
    """Return the sort key: pods that failed by themselves first, then those of the cluster or a node; newest first."""
    ended_s = pod.created_s if pod.ended_s is None else pod.ended_s
    return pod.is_disrupted or pod.is_rejected or pod.is_lost, -ended_s, pod.name

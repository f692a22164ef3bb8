"""PURE: failed pods that are kept after their replacement, for their logs: the last one of each slot, a few of a job.

A retained pod needs no mark: it has failed, it is not being deleted, and the map does not name it. It is never counted
as a node. It goes with the job, with cleanPodPolicy All, with a suspension, or when a later one takes its place.
"""

from collections.abc import Container, Iterable, Iterator

from elasticjob_operator.model.pod import Pod

MAX_RETAINED = 10
"""Of one job; the newest are kept."""


def retained_pods(pods: Iterable[Pod], *, named: Container[str]) -> frozenset[str]:
    """Names of the pods to keep, of those that the map does not name."""
    last: dict[int | None, Pod] = {}
    for pod in sorted(failed_before(pods, named=named), key=_age):
        last.setdefault(pod.slot, pod)
    return frozenset(pod.name for pod in list(last.values())[:MAX_RETAINED])


def failed_before(pods: Iterable[Pod], *, named: Container[str]) -> Iterator[Pod]:
    """Pods that have failed, and whose slot has another pod by now."""
    failed = (pod for pod in pods if pod.phase == "Failed" and not pod.has_running_sidecar and not pod.terminating)
    return (pod for pod in failed if pod.name not in named)


def _age(pod: Pod) -> tuple[bool, float, str]:
    """Newest first; what ended by itself comes before what the cluster ended."""
    ended_s = pod.created_s if pod.ended_s is None else pod.ended_s
    return pod.is_disrupted or pod.is_rejected, -ended_s, pod.name

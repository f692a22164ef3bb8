"""Which pods of an ended job are deleted, and when (cleanPodPolicy).

Agents exit by themselves when they read the final state, and their pods then keep their logs. So running pods get time
for that. After it they are deleted, because a sidecar must not hold the resources of a finished job. No pod is created
for an ended job.
"""

from collections.abc import Iterable

from elasticjob_api.job import ElasticJob
from elasticjob_api.spec import CleanPodPolicy
from elasticjob_api.status import JobStatus
from elasticjob_operator.model.pod import Pod
from elasticjob_operator.model.timestamps import from_rfc3339

CLEANUP_MARGIN_S = 10.0
"""Seconds beyond the graceful stop, for the agent's last report and for the kubelet to report the end."""


def cleanup_at_s(job: ElasticJob, status: JobStatus) -> float | None:
    """Return when pods that still run are deleted; None: never, or the job has not ended."""
    ended_s = from_rfc3339(status.completion_time)
    if ended_s is None or job.spec.clean_pod_policy is CleanPodPolicy.NONE:
        return None
    return ended_s + job.spec.graceful_shutdown.seconds + CLEANUP_MARGIN_S


def pods_to_delete(job: ElasticJob, status: JobStatus, pods: Iterable[Pod], now_s: float) -> list[Pod]:
    """Return the pods to delete now."""
    at_s = cleanup_at_s(job, status)
    if at_s is None or now_s < at_s:
        return []
    every = job.spec.clean_pod_policy is CleanPodPolicy.ALL
    return [pod for pod in pods if not pod.terminating and (every or not pod.ended or pod.has_running_sidecar)]

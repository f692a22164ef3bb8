"""PURE: the status of a job while its rendezvous cannot be read: the part that the API server alone can show.

Suspension and activeDeadlineSeconds are in the manifest, and pods are in the API server. Neither waits for etcd. The
world in etcd follows when it can be written again. Everything that depends on rounds waits: an outage is no evidence.
"""

from dataclasses import replace

from elasticjob_api.constants import ConditionType, Phase
from elasticjob_api.status import JobStatus
from elasticjob_operator.model.snapshot import Observed
from elasticjob_operator.model.text import counted
from elasticjob_operator.model.timestamps import to_rfc3339
from elasticjob_operator.policy.lifecycle.deadlines import broken_life
from elasticjob_operator.policy.lifecycle.job_failure import JobFailure
from elasticjob_operator.policy.status.conditions import SUSPENDING, Judgement, holds


def deadline_failure(seen: Observed) -> JobFailure | None:
    """The failure of a job that runs beyond its deadline.

    Without a running pod the job may have ended in time, and only etcd knows how.
    """
    if seen.job.spec.suspend or seen.view.final:
        return None
    runs = any(pod.running for pod in seen.pods.values())
    return broken_life(seen.job, seen.status, seen.now_s) if runs else None


def judge_without_etcd(seen: Observed) -> dict[ConditionType, Judgement]:
    """The conditions that can be judged."""
    if (failure := deadline_failure(seen)) is not None:
        ended = Judgement("True", failure.reason, failure.message)
        return {ConditionType.FAILED: ended, ConditionType.RUNNING: Judgement("False", "Finished")}
    if seen.view.final:
        return {}
    if seen.job.spec.suspend:
        return _suspension(seen)
    if holds(seen.status.conditions, ConditionType.SUSPENDED):
        waiting = Judgement("False", Phase.PENDING, "etcd is needed to resume")
        return {ConditionType.SUSPENDED: Judgement("False", "NotSuspended"), ConditionType.RUNNING: waiting}
    return {}


def _suspension(seen: Observed) -> dict[ConditionType, Judgement]:
    if left := sum(not pod.ended or pod.lingers for pod in seen.pods.values()):
        message = f"{counted(left, 'pod')} still to stop"
        return {ConditionType.SUSPENDED: Judgement("False", SUSPENDING, message)}
    return {
        ConditionType.SUSPENDED: Judgement("True", "Suspended", "spec.suspend is true"),
        ConditionType.RUNNING: Judgement("False", Phase.SUSPENDED),
        ConditionType.QUORUM_REACHED: Judgement("False", "NoActiveRound"),
    }


def with_end(status: JobStatus, seen: Observed) -> JobStatus:
    """The status with the times of what was judged, and without nodes that have stopped."""
    if deadline_failure(seen) is not None:
        ended = status.completion_time or to_rfc3339(seen.now_s)
        return replace(status, completion_time=ended, ready_replicas=0)
    if not seen.job.spec.suspend or seen.view.final:
        return status
    return replace(status, start_time="", ready_replicas=status.ready_replicas if status.replicas else 0)

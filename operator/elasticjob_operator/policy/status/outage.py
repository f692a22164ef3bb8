"""The status of a job while its rendezvous cannot be read: the part that needs only the API server.

Suspension and activeDeadlineSeconds are in the manifest, and pods are in the API server. Neither waits for etcd. The
rendezvous state is updated when etcd accepts writes again. All that depends on rounds waits: an outage proves nothing.
"""

from dataclasses import replace

from elasticjob_api.constants import ConditionType, Phase
from elasticjob_api.job_failure import JobFailure
from elasticjob_api.status import JobStatus
from elasticjob_operator.model.snapshot import JobSnapshot
from elasticjob_operator.model.text import pluralize
from elasticjob_operator.model.timestamps import to_rfc3339
from elasticjob_operator.policy.lifecycle.deadlines import exceeded_active_deadline
from elasticjob_operator.policy.status.conditions import SUSPENDING, ConditionValue, is_true


def deadline_failure(snapshot: JobSnapshot) -> JobFailure | None:
    """Return the failure of a job that runs beyond its deadline.

    Without a running pod the job may have ended in time; only etcd shows how.
    """
    if snapshot.job.spec.suspend or snapshot.view.is_final:
        return None
    runs = any(pod.running for pod in snapshot.pods.values())
    return exceeded_active_deadline(snapshot.job, snapshot.status, snapshot.now_s) if runs else None


def evaluate_without_etcd(snapshot: JobSnapshot) -> dict[ConditionType, ConditionValue]:
    """Return the conditions that can be evaluated."""
    if (failure := deadline_failure(snapshot)) is not None:
        ended = ConditionValue("True", failure.reason, failure.message)
        return {ConditionType.FAILED: ended, ConditionType.RUNNING: ConditionValue("False", "Finished")}
    if snapshot.view.is_final:
        return {}
    if snapshot.job.spec.suspend:
        return _suspension_without_etcd(snapshot)
    if is_true(snapshot.status.conditions, ConditionType.SUSPENDED):
        waiting = ConditionValue("False", Phase.PENDING, "waiting for etcd, which is needed to resume the job")
        return {ConditionType.SUSPENDED: ConditionValue("False", "NotSuspended"), ConditionType.RUNNING: waiting}
    return {}


def _suspension_without_etcd(snapshot: JobSnapshot) -> dict[ConditionType, ConditionValue]:
    if left := sum(not pod.ended or pod.has_running_sidecar for pod in snapshot.pods.values()):
        message = f"waiting for {pluralize(left, 'pod')} to stop"
        return {ConditionType.SUSPENDED: ConditionValue("False", SUSPENDING, message)}
    return {
        ConditionType.SUSPENDED: ConditionValue("True", "Suspended", "spec.suspend is true"),
        ConditionType.RUNNING: ConditionValue("False", Phase.SUSPENDED),
        ConditionType.QUORUM_REACHED: ConditionValue("False", "NoActiveRound"),
    }


def with_final_status(status: JobStatus, snapshot: JobSnapshot) -> JobStatus:
    """Return the status with the times for these conditions, and without nodes that have stopped."""
    if deadline_failure(snapshot) is not None:
        ended = status.completion_time or to_rfc3339(snapshot.now_s)
        return replace(status, completion_time=ended, ready_replicas=0)
    if not snapshot.job.spec.suspend or snapshot.view.is_final:
        return status
    return replace(status, start_time="", ready_replicas=status.ready_replicas if status.replicas else 0)

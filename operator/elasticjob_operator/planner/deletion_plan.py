"""The plan for a deleted job: empty its slots, delete its pods, and delete its keys last.

The keys are deleted only when no pod of the job runs, so that no agent writes a key afterwards. The job must belong to
this installation. If jobs have certificates, a pod is awaited only until its grace period is over. A finalizer may keep
the pod for ever, and its certificate may have been copied.
"""

from collections.abc import Mapping, Sequence

from elasticjob_operator.model.actions import Action, DeletePods, DeletePrefix, Plan, RemoveEtcdUser, WriteSpec
from elasticjob_operator.model.pod import Pod
from elasticjob_operator.model.snapshot import DeletedJob, Observation
from elasticjob_operator.policy.lifecycle.installation import is_foreign
from elasticjob_operator.policy.lifecycle.spec_record import without_slots
from elasticjob_operator.settings import Settings

_OVERDUE_S = 10.0
"""Time after the grace period until a pod counts as killed: for a slow kubelet, and for clocks that differ."""


def plan_deletion(job: DeletedJob) -> Plan:
    """Return the next actions; the caller carries them out only if the API server has no such job either."""
    view, pods = job.view, _own_pods(job)
    actions: list[Action] = []
    if to_delete := {pod.name: pod.uid for pod in pods.values() if not pod.terminating}:
        # Only in the observed version: a user who orphans a job removes the job's name from its pods, which then stay.
        actions.append(DeletePods(to_delete, None, {name: pods[name].version for name in to_delete}))
    has_own_keys = not view.empty and (bool(job.job_state.installation) or _is_ours_by_spec(job))
    # Another installation may have taken over a job of which we only have the user, so its pods are awaited too.
    has_only_user = job.job_state.has_user and not has_own_keys
    awaited = _awaited_pods(job, job.pods if has_only_user else pods)
    if has_own_keys:
        actions += _finish_rendezvous(job, awaited)
    elif has_only_user and not awaited:
        actions += _purge(job)
    is_last = view.empty and not pods and not (has_only_user and awaited)
    return Plan(actions=tuple(actions), requeue_in_s=_requeue_after_s(job, awaited), is_last=is_last)


def plan_quota_violation(job: Observation) -> tuple[Action, ...]:
    """Return the actions that end a job's access to etcd because it exceeds its quota; none if it does not."""
    return _last_actions(job.settings) if job.view.quota_violation and not job.view.empty else ()


def _own_pods(job: DeletedJob) -> Mapping[str, Pod]:
    """Return the pods that may be deleted with the job: not those of another installation."""
    if job.job_state.foreign_event is not None:
        return {}
    installation, prefix = job.settings.installation, job.prefix
    return {
        name: pod for name, pod in job.pods.items() if not is_foreign(pod, installation=installation, prefix=prefix)
    }


def _is_ours_by_spec(job: DeletedJob) -> bool:
    """Return whether the job's spec record names this installation; an agent of the job may have overwritten it."""
    return job.view.spec is not None and job.view.spec.operator == job.settings.operator_id


def _awaited_pods(job: DeletedJob, pods: Mapping[str, Pod]) -> list[Pod]:
    """Return the pods that must end before the keys are deleted."""
    if not job.settings.etcd_tls:
        return list(pods.values())  # without certificates, only the end of a pod keeps its agent from writing
    return [pod for pod in pods.values() if not pod.ended and not _is_overdue(pod, job.now_s)]


def _is_overdue(pod: Pod, now_s: float) -> bool:
    return pod.grace_ends_s is not None and now_s >= pod.grace_ends_s + _OVERDUE_S


def _requeue_after_s(job: DeletedJob, awaited: Sequence[Pod]) -> float | None:
    """Return the time until the next pod's grace period is over; no watch reports that if a finalizer keeps the pod."""
    if not job.settings.etcd_tls:
        return None
    ends = (pod.grace_ends_s + _OVERDUE_S - job.now_s for pod in awaited if pod.grace_ends_s is not None)
    return min(ends, default=None)


def _finish_rendezvous(job: DeletedJob, awaited: Sequence[Pod]) -> tuple[Action, ...]:
    view = job.view
    if not awaited or view.quota_violation:
        return _purge(job)
    if view.spec is None or not view.spec.slots or view.is_final:
        return ()
    record = without_slots(view.spec)
    return (WriteSpec(record=record, spec_revision=view.spec_revision, state_revision=view.state_revision),)


def _purge(job: DeletedJob) -> tuple[Action, ...]:
    # A new process acts on keys whose spec record names it, and on users. Other keys must not outlive the user.
    only_by_user = job.job_state.has_user and not job.view.empty and not _is_ours_by_spec(job)
    return (*((DeletePrefix(),) if only_by_user else ()), *_last_actions(job.settings))


def _last_actions(settings: Settings) -> tuple[Action, ...]:
    """Return the actions that remove the job from etcd; the keys go last, because they cause the retry of the rest."""
    return (*((RemoveEtcdUser(),) if settings.etcd_tls else ()), DeletePrefix())

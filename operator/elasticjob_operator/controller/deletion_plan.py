"""The plan for a deleted job: empty its slots, delete its pods, and delete its keys last.

The caller has read the job from the API server: it is being deleted, or does not exist, or is another of the same name.
The keys are deleted only when no pod of the job runs, so that no agent writes a key afterwards. The job must belong to
this installation. If jobs have certificates, a pod is awaited only until its grace period is over. A finalizer may keep
the pod for ever, and its certificate may have been copied.
"""

from collections.abc import Mapping, Sequence

from elasticjob_api.rendezvous_view import RendezvousView
from elasticjob_operator.model.actions import Action, DeletePods, DeletePrefix, Plan, RemoveEtcdUser, WriteSpec
from elasticjob_operator.model.pod import Pod
from elasticjob_operator.policy.lifecycle.spec_record import without_slots
from elasticjob_operator.settings import Settings

_OVERDUE_S = 10.0
"""Time after the grace period until a pod counts as killed: for a slow kubelet, and for clocks that differ."""


def plan_deletion(
    view: RendezvousView, pods: Mapping[str, Pod], settings: Settings, *, now_s: float, claimed: bool = False
) -> Plan:
    """Return the next actions for a deleted job; none when nothing is left.

    Args:
        view: the job's keys.
        pods: the job's pods, by name.
        settings: the operator's settings.
        now_s: the time of the wall clock.
        claimed: whether this installation has claimed the job. Otherwise its spec record decides, which an agent of
            the job may have overwritten.
    """
    actions: list[Action] = []
    if doomed := {pod.name: pod.uid for pod in pods.values() if not pod.terminating}:
        # Only in the observed version: a user who orphans a job removes the job's name from its pods, which then stay.
        actions.append(DeletePods(doomed, None, {name: pods[name].version for name in doomed}))
    is_ours = claimed or (view.spec is not None and view.spec.operator == settings.operator_id)
    if is_ours and not view.empty:
        actions += _finish_rendezvous(view, _awaited_pods(pods, settings, now_s), settings)
    return Plan(actions=tuple(actions), requeue_in_s=_requeue_after_s(pods, settings, now_s))


def plan_quota_violation(view: RendezvousView, settings: Settings) -> tuple[Action, ...]:
    """Return the actions that end a job's access to etcd because it exceeds its quota; none if it does not."""
    return _last_actions(settings) if view.quota_violation and not view.empty else ()


def blocks_key_deletion(pod: Pod, now_s: float) -> bool:
    """Return whether an agent may still run in this pod: the pod has not ended, and its grace period is not over."""
    return not pod.ended and (pod.grace_ends_s is None or now_s < pod.grace_ends_s + _OVERDUE_S)


def _awaited_pods(pods: Mapping[str, Pod], settings: Settings, now_s: float) -> Mapping[str, Pod]:
    """Return the pods that must end before the keys are deleted."""
    if not settings.etcd_tls:
        return pods  # without certificates, only the end of a pod keeps its agent from writing
    return {name: pod for name, pod in pods.items() if blocks_key_deletion(pod, now_s)}


def _requeue_after_s(pods: Mapping[str, Pod], settings: Settings, now_s: float) -> float | None:
    """Return the time until the next pod's grace period is over; no watch reports that if a finalizer keeps the pod."""
    ends = (pod.grace_ends_s for pod in _awaited_pods(pods, settings, now_s).values())
    return min((end_s + _OVERDUE_S - now_s for end_s in ends if settings.etcd_tls and end_s is not None), default=None)


def _last_actions(settings: Settings) -> tuple[Action, ...]:
    """Return the actions that remove the job from etcd; the keys go last, because they cause the retry of the rest."""
    return (*((RemoveEtcdUser(),) if settings.etcd_tls else ()), DeletePrefix())


def _finish_rendezvous(view: RendezvousView, pods: Mapping[str, Pod], settings: Settings) -> Sequence[Action]:
    if not pods or view.quota_violation:
        return _last_actions(settings)
    if view.spec is None or not view.spec.slots or view.is_final:
        return []
    record = without_slots(view.spec)
    return [WriteSpec(record=record, spec_revision=view.spec_revision, world_revision=view.world_revision)]

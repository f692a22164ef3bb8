"""PURE: the end of a job that was deleted: no pod, no spec; slots emptied, pods deleted, the prefix last.

The caller has read the job from the API server: it is being deleted, or is gone, or is another of the same name.
The prefix goes only when nothing of the job runs, so that no agent writes into it afterwards. The job must be this
installation's. With certificates a pod is waited for only as long as its grace lasts. A finalizer may keep a pod for
ever, and its certificate may have been copied.
"""

from collections.abc import Mapping, Sequence

from elasticjob_operator.model.actions import Action, DeletePods, DeletePrefix, Plan, RemoveEtcdUser, WriteSpec
from elasticjob_operator.model.pod import Pod
from elasticjob_operator.model.rendezvous_view import RendezvousView
from elasticjob_operator.policy.lifecycle.spec_record import without_slots
from elasticjob_operator.settings import Settings

_OVERDUE_S = 10.0
"""After its grace a pod has had its SIGKILL; so long for its kubelet to send it, and for clocks that differ."""


def plan_deletion(
    view: RendezvousView, pods: Mapping[str, Pod], settings: Settings, *, now_s: float, claimed: bool = False
) -> Plan:
    """The next step to the end; nothing when nothing is left. `now_s` is by the wall clock.

    The job is this installation's if it was `claimed`, or if its map is so: the job itself may have spoilt that.
    """
    actions: list[Action] = []
    if doomed := {pod.name: pod.uid for pod in pods.values() if not pod.terminating}:
        # In the version that was seen: whoever orphans a job takes its name out of the pods, and they are to stay.
        actions.append(DeletePods(doomed, None, {name: pods[name].version for name in doomed}))
    is_ours = claimed or (view.spec is not None and view.spec.operator == settings.operator_id)
    if is_ours and not view.empty:
        actions += _finish_rendezvous(view, _awaited_pods(pods, settings, now_s), settings)
    return Plan(actions=tuple(actions), requeue_in_s=_requeue_after_s(pods, settings, now_s))


def plan_quota_violation(view: RendezvousView, settings: Settings) -> tuple[Action, ...]:
    """What takes etcd from a job that misuses it, whatever else is known of the job; nothing if it does not."""
    return _last_actions(settings) if view.quota_violation and not view.empty else ()


def blocks_key_deletion(pod: Pod, now_s: float) -> bool:
    """An agent may run in this pod of a deleted job: it has not ended, and was not to have ended by now."""
    return not pod.ended and (pod.grace_ends_s is None or now_s < pod.grace_ends_s + _OVERDUE_S)


def _awaited_pods(pods: Mapping[str, Pod], settings: Settings, now_s: float) -> Mapping[str, Pod]:
    """Without certificates nothing but the end of a pod keeps its agent from writing."""
    if not settings.etcd_tls:
        return pods
    return {name: pod for name, pod in pods.items() if blocks_key_deletion(pod, now_s)}


def _requeue_after_s(pods: Mapping[str, Pod], settings: Settings, now_s: float) -> float | None:
    """When the grace of the next pod is over; nothing else wakes us for one that a finalizer keeps."""
    ends = (pod.grace_ends_s for pod in _awaited_pods(pods, settings, now_s).values())
    return min((end_s + _OVERDUE_S - now_s for end_s in ends if settings.etcd_tls and end_s is not None), default=None)


def _last_actions(settings: Settings) -> tuple[Action, ...]:
    """The prefix last: while there is one, the rest is tried again."""
    return (*((RemoveEtcdUser(),) if settings.etcd_tls else ()), DeletePrefix())


def _finish_rendezvous(view: RendezvousView, pods: Mapping[str, Pod], settings: Settings) -> Sequence[Action]:
    if not pods or view.quota_violation:
        return _last_actions(settings)
    if view.spec is None or not view.spec.slots or view.is_final:
        return []
    record = without_slots(view.spec)
    return [WriteSpec(record=record, spec_revision=view.spec_revision, world_revision=view.world_revision)]

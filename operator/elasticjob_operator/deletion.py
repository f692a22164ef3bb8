"""PURE: the end of a job that was deleted: no pod, no spec; slots emptied, pods deleted, the prefix last.

The caller has read the job from the API server: it is being deleted, or is gone, or is another of the same name.
The prefix goes only when nothing of the job runs, so that no agent writes into it afterwards; and only if this
installation wrote its spec.
"""

from collections.abc import Mapping

from elasticjob_operator.actions import Action, DeletePods, DeletePrefix, Disown, Plan, WriteSpec
from elasticjob_operator.pods import Pod
from elasticjob_operator.policy.spec_record import emptied
from elasticjob_operator.settings import Settings
from elasticjob_operator.view import View


def plan_deletion(view: View, pods: Mapping[str, Pod], settings: Settings) -> Plan:
    """The next step to the end; nothing when nothing is left."""
    actions: list[Action] = []
    if doomed := {pod.name: pod.uid for pod in pods.values() if not pod.terminating}:
        actions.append(DeletePods(doomed, None))
    if view.spec is not None and view.spec.operator == settings.operator_id:
        actions += _end_of_rendezvous(view, pods, settings)
    return Plan(actions=tuple(actions))


def _end_of_rendezvous(view: View, pods: Mapping[str, Pod], settings: Settings) -> list[Action]:
    if not pods:  # the prefix last: while there is one, the rest is tried again
        return [*([Disown()] if settings.etcd_tls else []), DeletePrefix()]
    if view.spec is None or not view.spec.slots or view.final:
        return []
    record = emptied(view.spec)
    return [WriteSpec(record=record, spec_revision=view.spec_revision, world_revision=view.world_revision)]

"""The revision of a job's current life, and the pods of other revisions (`model.revision` defines both words).

The pods themselves store it: a label has the hash of their template, an annotation has the image of their agent. So no
record in etcd needs a field for it, and it survives the loss of etcd. Agents of an older version read strictly and
would reject such a field. The status stores the image too, in case all pods are lost at once.

Pods without the label come from an older operator. They count as made from the current template, so that an upgrade
replaces no pods.
"""

from collections.abc import Iterable

from elasticjob_api.constants import EventReason
from elasticjob_operator.model.event import Event
from elasticjob_operator.model.pod import Pod
from elasticjob_operator.model.revision import Revision
from elasticjob_operator.model.slot_pod import PodState
from elasticjob_operator.model.snapshot import JobSnapshot
from elasticjob_operator.policy.slots.outdated_pods import is_outdated, is_template_unclear

_UNKNOWN = frozenset({PodState.UNKNOWN, PodState.CREATED})
"""A pod of this name may exist, created by another process, but has not been observed."""


def has_pods(snapshot: JobSnapshot) -> bool:
    """Return whether there is a slot map, and it is not that of a suspended job."""
    return snapshot.view.spec is not None and not snapshot.view.spec.suspended


def current_revision(snapshot: JobSnapshot) -> Revision | None:
    """Return the revision of the current life, or of one that may start now; None if it is not known yet."""
    if has_pods(snapshot):
        return snapshot.job_state.revision or _learned_revision(snapshot)
    outdated = snapshot.outdated_pods
    live = [pod for pod in snapshot.pods.values() if pod.is_live and pod.name not in outdated]
    adoptable = live if snapshot.view.spec is None else []
    wanted = snapshot.wanted_revision
    return _revision_of_pods(adoptable, wanted, default_image=wanted.agent_image) if adoptable else wanted


def _learned_revision(snapshot: JobSnapshot) -> Revision | None:
    """Return the revision of the pods in the slot map; that of the status if none of them can exist."""
    owners = snapshot.owners.values()
    wanted = snapshot.wanted_revision
    pods = [owner.pod for owner in owners if owner.pod is not None]
    if not pods and any(owner.state in _UNKNOWN for owner in owners):
        return None
    return _revision_of_pods(pods, wanted, default_image=snapshot.status.agent_image or wanted.agent_image)


def _revision_of_pods(pods: Iterable[Pod], wanted: Revision, *, default_image: str) -> Revision:
    """Return the template hash of the first outdated pod, else the current one; and the first image that a pod has."""
    known = sorted(pods, key=lambda pod: (pod.slot or 0, pod.created_s))
    old = [pod.template_hash for pod in known if is_outdated(pod, wanted)]
    images = [pod.agent_image for pod in known if pod.agent_image]
    image = images[0] if images else default_image
    return Revision(old[0] if old else wanted.template_hash, image if wanted.agent_image else "")


def is_revision_outdated(snapshot: JobSnapshot) -> bool:
    """Return whether the template changed during the current life: this operator missed a suspension and a resume."""
    revision, wanted = snapshot.job_state.revision, snapshot.wanted_revision
    if (
        revision is not None
        and not is_template_unclear(snapshot.job)
        and revision.template_hash != wanted.template_hash
    ):
        return True
    return not snapshot.outdated_pods.keys().isdisjoint(snapshot.view.owners().values())


def template_changed_event() -> Event:
    """Return the event for pods that are replaced because of a new template."""
    message = "the pod template changed while the job was suspended; all pods are replaced by new ones"
    return Event(EventReason.TEMPLATE_CHANGED, message)

"""PURE: which revision the present life of a job has, and which pods are of another one.

The pods themselves keep the revision: a label has the hash of their template, an annotation the image of their agent.
So no record in etcd needs a field for it, which agents of an older version, strict readers, would refuse; and it
survives the loss of etcd. The status keeps the image for a life all of whose pods went at once.

Pods of an operator that set no label count as made from the template of today: an upgrade replaces nothing.
"""

from collections.abc import Iterable

from elasticjob_api.constants import EventReason
from elasticjob_operator.model.event import Event
from elasticjob_operator.model.pod import Pod
from elasticjob_operator.model.revision import Revision
from elasticjob_operator.model.snapshot import JobSnapshot
from elasticjob_operator.policy.slots.outdated_pods import is_outdated, is_template_unclear
from elasticjob_operator.policy.slots.ownership import PodState

_UNKNOWN = frozenset({PodState.UNKNOWN, PodState.CREATED})
"""A pod of this name may be there, made by another process, and has not been seen."""


def has_pods(snapshot: JobSnapshot) -> bool:
    """There is a map, and it is not that of a suspended job."""
    return snapshot.view.spec is not None and not snapshot.view.spec.suspended


def current_revision(snapshot: JobSnapshot) -> Revision | None:
    """The revision of the present life, or of the one that can begin now; None while that is not known."""
    if has_pods(snapshot):
        return snapshot.job_state.revision or _learned_revision(snapshot)
    strange = snapshot.outdated_pods
    adoptable = (
        [p for p in snapshot.pods.values() if p.is_live and p.name not in strange] if snapshot.view.spec is None else []
    )
    wanted = snapshot.wanted_revision
    return _revision_of_pods(adoptable, wanted, default_image=wanted.agent_image) if adoptable else wanted


def _learned_revision(snapshot: JobSnapshot) -> Revision | None:
    """From the pods that the map names, or from the status if none of them can be there."""
    owners = snapshot.owners().values()
    wanted = snapshot.wanted_revision
    pods = [owner.pod for owner in owners if owner.pod is not None]
    if not pods and any(owner.state in _UNKNOWN for owner in owners):
        return None
    return _revision_of_pods(pods, wanted, default_image=snapshot.status.agent_image or wanted.agent_image)


def _revision_of_pods(pods: Iterable[Pod], wanted: Revision, *, default_image: str) -> Revision:
    """The template of the first pod that is outdated, else of today; the image of the first pod that has one."""
    known = sorted(pods, key=lambda pod: (pod.slot or 0, pod.created_s))
    old = [pod.template_hash for pod in known if is_outdated(pod, wanted)]
    images = [pod.agent_image for pod in known if pod.agent_image]
    image = images[0] if images else default_image
    return Revision(old[0] if old else wanted.template_hash, image if wanted.agent_image else "")


def is_revision_outdated(snapshot: JobSnapshot) -> bool:
    """The template has changed since this life began: the suspension in between was never seen."""
    revision, wanted = snapshot.job_state.revision, snapshot.wanted_revision
    if (
        revision is not None
        and not is_template_unclear(snapshot.job)
        and revision.template_hash != wanted.template_hash
    ):
        return True
    return not snapshot.outdated_pods.keys().isdisjoint(snapshot.view.owners().values())


def template_changed_event() -> Event:
    """The event of a life that ends because its template has changed."""
    message = "the pod template changed while the job was suspended: all pods are replaced, as by a suspension"
    return Event(EventReason.TEMPLATE_CHANGED, message)

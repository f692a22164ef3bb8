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
from elasticjob_operator.model.snapshot import Observed
from elasticjob_operator.policy.slots.outdated_pods import is_outdated, is_template_unclear
from elasticjob_operator.policy.slots.ownership import Standing

_UNSEEN = frozenset({Standing.TO_LOOK, Standing.COMING})
"""A pod of this name may be there, made by another process, and has not been seen."""


def has_begun(seen: Observed) -> bool:
    """There is a map, and it is not that of a suspended job."""
    return seen.view.spec is not None and not seen.view.spec.suspended


def life_revision(seen: Observed) -> Revision | None:
    """The revision of the present life, or of the one that can begin now; None while that is not known."""
    if has_begun(seen):
        return seen.ledger.revision or _learned(seen)
    strange = seen.outdated_pods
    adoptable = [p for p in seen.pods.values() if p.live and p.name not in strange] if seen.view.spec is None else []
    wanted = seen.wanted_revision
    return _of_pods(adoptable, wanted, default_image=wanted.agent_image) if adoptable else wanted


def _learned(seen: Observed) -> Revision | None:
    """From the pods that the map names, or from the status if none of them can be there."""
    owners = seen.owners().values()
    wanted = seen.wanted_revision
    pods = [owner.pod for owner in owners if owner.pod is not None]
    if not pods and any(owner.standing in _UNSEEN for owner in owners):
        return None
    return _of_pods(pods, wanted, default_image=seen.status.agent_image or wanted.agent_image)


def _of_pods(pods: Iterable[Pod], wanted: Revision, *, default_image: str) -> Revision:
    """The template of the first pod that is outdated, else of today; the image of the first pod that has one."""
    known = sorted(pods, key=lambda pod: (pod.slot or 0, pod.created_s))
    old = [pod.template_hash for pod in known if is_outdated(pod, wanted)]
    images = [pod.agent_image for pod in known if pod.agent_image]
    image = images[0] if images else default_image
    return Revision(old[0] if old else wanted.template_hash, image if wanted.agent_image else "")


def is_life_outdated(seen: Observed) -> bool:
    """The template has changed since this life began: the suspension in between was never seen."""
    revision, wanted = seen.ledger.revision, seen.wanted_revision
    if revision is not None and not is_template_unclear(seen.job) and revision.template_hash != wanted.template_hash:
        return True
    return not seen.outdated_pods.keys().isdisjoint(seen.view.owners().values())


def template_changed() -> Event:
    """The event of a life that ends because its template has changed."""
    message = "the pod template changed while the job was suspended: all pods are replaced, as by a suspension"
    return Event(EventReason.TEMPLATE_CHANGED, message)

"""PURE: whether the next pod to be created shows if the template is right: the first pod of a life is created strictly.

The template passes through the CRD unread, and the API server drops fields that it does not know: with `resource:` for
`resources:` a job of eight GPUs runs on one processor. So the first pod is created with strict field validation. The
pods of a job that has run in this life are not: an older API server, or an older operator, took its template.
"""

from collections.abc import Mapping

from elasticjob_operator.model.snapshot import JobSnapshot
from elasticjob_operator.model.timestamps import from_rfc3339
from elasticjob_operator.policy.slots.ownership import PodState, SlotPod


def must_validate_template(snapshot: JobSnapshot, owners: Mapping[int, SlotPod]) -> bool:
    """No slot has or had a pod, and no round of this life has run."""
    if any(owner.state not in {PodState.PENDING_CREATE, PodState.NEVER_CREATED} for owner in owners.values()):
        return False
    started_s, round_s = from_rfc3339(snapshot.status.start_time), from_rfc3339(snapshot.status.last_rendezvous_time)
    return round_s is None or started_s is None or round_s < started_s

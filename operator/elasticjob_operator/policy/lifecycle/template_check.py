"""Whether the next pod is created with strict field validation, which shows whether the template is valid.

The CRD does not check the template, and the API server drops fields that it does not know. With `resource:` instead of
`resources:`, a job of eight GPUs would run on one processor. So the first pod after a start or resume is created with
strict field validation. Once a round has run, later pods are not: an older API server or operator has accepted the
template.
"""

from elasticjob_operator.model.slot_pod import PodState
from elasticjob_operator.model.snapshot import JobSnapshot
from elasticjob_operator.model.timestamps import from_rfc3339


def must_validate_template(snapshot: JobSnapshot) -> bool:
    """Return whether no slot has or had a pod, and no round has run since the start or resume."""
    if any(owner.state not in {PodState.PENDING_CREATE, PodState.NEVER_CREATED} for owner in snapshot.owners.values()):
        return False
    started_s, round_s = from_rfc3339(snapshot.status.start_time), from_rfc3339(snapshot.status.last_rendezvous_time)
    return round_s is None or started_s is None or round_s < started_s

"""The snapshot of an accepted job: an observation, and what several policies derive from it."""

from elasticjob_api.job import ElasticJob
from elasticjob_operator.model.revision import wanted_revision
from elasticjob_operator.model.snapshot import JobSnapshot, Observation
from elasticjob_operator.policy.slots.lost_pods import lost_pods
from elasticjob_operator.policy.slots.outdated_pods import outdated_pods
from elasticjob_operator.policy.slots.ownership import owners
from elasticjob_operator.policy.slots.predecessors import slots_with_predecessor
from elasticjob_operator.policy.slots.slot_agents import slot_agents


def derive_snapshot(observed: Observation, job: ElasticJob) -> JobSnapshot:
    """Return the snapshot; its derived values hold while the job state does not change."""
    view, pods, job_state = observed.view, observed.pods, observed.job_state
    owned = owners(view.owners(), pods, job_state, observed.monotonic_s)
    wanted = wanted_revision(job, observed.settings)
    return JobSnapshot(
        **vars(observed),
        job=job,
        owners=owned,
        slot_agents=slot_agents(view),
        waiting_slots=slots_with_predecessor(job.spec, owned, pods, job_state),
        lost_pods=lost_pods(job.spec, job_state, observed.monotonic_s),
        wanted_revision=wanted,
        outdated_pods=outdated_pods(job, pods, observed.settings, wanted),
    )

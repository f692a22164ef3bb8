"""The update of a job's state before a plan, from its pods and its rendezvous.

No action of the job may be in flight.
"""

from elasticjob_api.job import ElasticJob
from elasticjob_operator.model.snapshot import JobSnapshot, Observation
from elasticjob_operator.policy.lifecycle.pod_revisions import current_revision
from elasticjob_operator.policy.slots.creation_backoff import while_pods_missing
from elasticjob_operator.policy.slots.joined import joined_before
from elasticjob_operator.policy.slots.node_avoidance import record_losses
from elasticjob_operator.policy.slots.replacement_backoff import update_histories
from elasticjob_operator.policy.status.keep import members_without_directory
from elasticjob_operator.policy.status.last_seen import record_view
from elasticjob_operator.policy.status.rounds import update_rounds


def record_observation(observed: Observation, job: ElasticJob) -> None:
    """Record rounds, agents and pods; drop what is known of other pods."""
    job_state, view, at_s = observed.job_state, observed.view, observed.monotonic_s
    rounds = job_state.rounds
    if rounds is None:
        rounds = (job_state.status or job.status).rounds
        job_state.agent_seen |= joined_before(rounds, observed.pods.values())
    if observed.is_readable:
        record_view(job_state.last_seen, view, observed.pods)
        job_state.rounds = update_rounds(rounds, view, observed.now_s)
    job_state.record_cached(observed.pods, at_s)
    running = {pod.uid for pod in observed.pods.values() if pod.running}
    job_state.record_agents(running=running, with_agent=set(view.agents()), monotonic_s=at_s)
    uids = {pod.uid for pod in observed.pods.values()}
    job_state.node_checked_s = {uid: s for uid, s in job_state.node_checked_s.items() if uid in uids}
    sessions = [node.record for node in view.nodes.values()]
    names = {*view.owners().values(), *(session.pod for session in sessions)}
    job_state.forget(names=names, uids={session.pod_uid for session in sessions})


def record_slots(snapshot: JobSnapshot) -> None:
    """Record what happened to the pods of the slots; no derived value of the snapshot depends on it."""
    job_state, at_s = snapshot.job_state, snapshot.monotonic_s
    if snapshot.is_readable:
        job_state.slot_histories = update_histories(
            job_state.slot_histories,
            snapshot.owners,
            at_s,
            now_s=snapshot.now_s,
            status_reason=snapshot.status.reason,
        )
        if (members := members_without_directory(snapshot)) is not None:
            job_state.last_seen.without_directory = members
        job_state.failed_creation = while_pods_missing(job_state.failed_creation, snapshot.owners)
        job_state.revision = current_revision(snapshot)
    record_losses(job_state, snapshot.owners.values(), lost=snapshot.lost_pods.uids, monotonic_s=at_s)

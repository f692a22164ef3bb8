"""The whole status of a job, rebuilt from the snapshot; fields without a source keep their previous value.

Counters come from the rendezvous state and the spec record, and never decrease. The status of an ended job is final,
except for the pods that still exist and the steps that they write to disk.
"""

from collections.abc import Iterable
from dataclasses import replace

from elasticjob_api import constants
from elasticjob_api.constants import ConditionType
from elasticjob_api.rendezvous_state import charged_ages_s
from elasticjob_api.rendezvous_view import RendezvousView
from elasticjob_api.status import Condition, JobStatus, NodeStatus
from elasticjob_operator.model.snapshot import JobSnapshot
from elasticjob_operator.model.timestamps import to_rfc3339
from elasticjob_operator.policy.lifecycle.pod_revisions import has_pods
from elasticjob_operator.policy.lifecycle.unknown_fields import is_waiting
from elasticjob_operator.policy.status.conditions import ConditionValue, conditions, evaluate, is_true, phase
from elasticjob_operator.policy.status.keep import keep_status, keep_status_at_end
from elasticjob_operator.policy.status.last_failure import last_failure
from elasticjob_operator.policy.status.nodes import node_statuses, within_limit
from elasticjob_operator.policy.status.outage import evaluate_without_etcd, with_final_status
from elasticjob_operator.policy.status.progress import progress
from elasticjob_operator.policy.status.reason import MESSAGE_LIMIT, reason_and_message
from elasticjob_operator.policy.status.rounds import update_rounds
from elasticjob_operator.policy.status.status_expiry import etcd_unavailable_since, status_expires_at_s
from elasticjob_operator.policy.status.worker_states import count_states


def is_finished(status: JobStatus) -> bool:
    """Return whether the job has ended according to its status, which is then final."""
    ended = any(is_true(status.conditions, name) for name in (ConditionType.COMPLETE, ConditionType.FAILED))
    return ended or bool(status.completion_time)


def next_status(snapshot: JobSnapshot) -> JobStatus:
    """Return the job's new status."""
    before = snapshot.status
    if is_finished(before):
        generation, kept = snapshot.job.metadata.generation, keep_status_at_end(snapshot)
        return replace(_with_pods(before, snapshot), observed_generation=generation, keep=kept)
    if snapshot.etcd_trouble or snapshot.view.is_unreadable:
        shown = replace(before, ready_replicas=0, world_size=0) if _has_expired(snapshot) else before
        shown = with_final_status(_with_pods(shown, snapshot), snapshot)
        return _with_conditions(shown, snapshot, {**_unavailability(snapshot), **evaluate_without_etcd(snapshot)})
    rebuilt = _with_rendezvous(_with_pods(_with_times(before, snapshot), snapshot), snapshot)
    return _with_conditions(rebuilt, snapshot, evaluate(snapshot))


def rejected_status(before: JobStatus, message: str, *, now: str, generation: int) -> JobStatus:
    """Return the status of a rejected manifest: the previous one, with the reason."""
    values = {ConditionType.ACCEPTED: ConditionValue("False", "InvalidSpec", message)}
    updated = conditions(values, before.conditions, now=now, generation=generation)
    status = replace(before, observed_generation=generation, conditions=updated, phase=phase(updated))
    return replace(status, reason="InvalidSpec", message=message[:MESSAGE_LIMIT])


def _has_expired(snapshot: JobSnapshot) -> bool:
    from_s = status_expires_at_s(snapshot.job, snapshot.status)
    return from_s is not None and from_s <= snapshot.now_s


def _unavailability(snapshot: JobSnapshot) -> dict[ConditionType, ConditionValue]:
    wanted = (ConditionType.ACCEPTED, ConditionType.UNKNOWN_FIELDS, ConditionType.RENDEZVOUS_UNAVAILABLE)
    values = {name: value for name, value in evaluate(snapshot).items() if name in wanted}
    was_running = any(c.type == ConditionType.RUNNING and c.status != "False" for c in snapshot.status.conditions)
    if was_running and _has_expired(snapshot):
        message = (
            f"etcd has not answered since {etcd_unavailable_since(snapshot.status)}; workers may continue to train"
        )
        values[ConditionType.RUNNING] = ConditionValue("Unknown", ConditionType.RENDEZVOUS_UNAVAILABLE, message)
    return values


def _with_conditions(
    status: JobStatus, snapshot: JobSnapshot, values: dict[ConditionType, ConditionValue]
) -> JobStatus:
    generation = snapshot.job.metadata.generation
    updated: tuple[Condition, ...] = conditions(
        values, status.conditions, now=to_rfc3339(snapshot.now_s), generation=generation
    )
    reason, message = reason_and_message(snapshot, updated)
    status = replace(status, observed_generation=generation, conditions=updated, phase=phase(updated))
    return replace(status, reason=reason, message=message)


def _with_pods(status: JobStatus, snapshot: JobSnapshot) -> JobStatus:
    pods, wanted = snapshot.pods.values(), snapshot.job.spec.desired_nodes
    scaled = status.desired_replicas not in {0, wanted}
    return replace(
        status,
        last_scale_time=to_rfc3339(snapshot.now_s) if scaled else status.last_scale_time,
        replicas=sum(pod.is_live for pod in pods),
        terminating_replicas=sum(pod.terminating for pod in pods),
        desired_replicas=wanted,
        selector=f"{constants.LABEL_JOB_UID}={snapshot.job.metadata.uid}",
    )


def _with_times(status: JobStatus, snapshot: JobSnapshot) -> JobStatus:
    """Return the status with its times; a suspension clears startTime, and completionTime is set once."""
    now = to_rfc3339(snapshot.now_s)
    if snapshot.view.is_final:
        return replace(status, start_time=status.start_time or now, completion_time=status.completion_time or now)
    if snapshot.job.spec.suspend or is_waiting(snapshot):
        return replace(status, start_time="")
    return replace(status, start_time=status.start_time or now)


def _with_rendezvous(status: JobStatus, snapshot: JobSnapshot) -> JobStatus:
    view, state = snapshot.view, snapshot.view.state
    nodes = node_statuses(snapshot)
    shown, truncated = within_limit(nodes)
    replacements = view.spec.replacements if view.spec else 0
    return replace(
        status,
        ready_replicas=len(view.live_members()),
        rendezvous_round=max(status.rendezvous_round, view.closed_round),
        world_size=_world_size(status, view, nodes),
        last_rendezvous_time=_last_rendezvous_time(status, snapshot),
        restarts=max(status.restarts, state.restarts if state else 0),
        restarts_count_towards_max=_counters(snapshot),
        node_losses=max(status.node_losses, state.node_losses if state else 0),
        pod_replacements=max(status.pod_replacements, replacements),
        worker_states=count_states(nodes),
        nodes=shown,
        nodes_truncated=truncated,
        rounds=update_rounds(snapshot.rounds, view, snapshot.now_s),
        master_pod=_master_pod(status, snapshot),
        agent_image=_agent_image(status, snapshot),
        last_failure=last_failure(snapshot),
        progress=progress(snapshot),
        keep=keep_status(snapshot),
    )


def _world_size(status: JobStatus, view: RendezvousView, nodes: Iterable[NodeStatus]) -> int:
    """Return the workers of the active round, or of the last round if the job has ended."""
    state = view.state
    if state is None:
        return 0
    # The state of a failed job has no members any more.
    live = set(view.live_members())
    sizes = zip(state.members, state.workers_per_node(), strict=False)
    size = sum(workers for member, workers in sizes if member in live)
    if size or not state.phase.is_final:
        return size
    return sum(len(node.ranks) for node in nodes) if view.membership else status.world_size


def _counters(snapshot: JobSnapshot) -> int:
    """Return the worker failures that count against maxRestarts; without restartWindowSeconds all of them count."""
    state = snapshot.view.state
    if state is None:
        return snapshot.status.restarts_count_towards_max
    if not snapshot.job.spec.restart_window_s:
        return max(snapshot.status.restarts, state.restarts)
    return len(charged_ages_s(state.charged_failures))


def _last_rendezvous_time(status: JobStatus, snapshot: JobSnapshot) -> str:
    active = snapshot.view.active_state
    if active is None:
        return status.last_rendezvous_time
    # A round remains the same round while its agents were unreachable for a time.
    was_unknown = any(c.type == ConditionType.RUNNING and c.status == "Unknown" for c in status.conditions)
    same = status.rendezvous_round == active.round and (status.ready_replicas > 0 or was_unknown)
    return status.last_rendezvous_time if same else to_rfc3339(snapshot.now_s)


def _agent_image(status: JobStatus, snapshot: JobSnapshot) -> str:
    """Return the agent image of the current pods, which an ended job keeps; empty if there are no pods."""
    if snapshot.view.is_final:
        return status.agent_image
    revision = snapshot.job_state.revision if has_pods(snapshot) else None
    return revision.agent_image if revision else ""


def _master_pod(status: JobStatus, snapshot: JobSnapshot) -> str:
    active = snapshot.view.active_state
    if active is None or not active.members:
        return status.master_pod
    return snapshot.view.owners().get(active.members[0].slot, status.master_pod)

"""PURE: the whole status of a job, rebuilt from the snapshot; fields without a source come from the one before.

Counters come from the world and the spec record, and never fall. An ended job's status does not change any more,
but for the pods that are still there.
"""

from collections.abc import Iterable
from dataclasses import replace

from elasticjob_api import constants
from elasticjob_api.constants import ConditionType
from elasticjob_api.rendezvous_state import from_run_lengths
from elasticjob_api.status import Condition, JobStatus, NodeStatus
from elasticjob_operator.model.rendezvous_view import View
from elasticjob_operator.model.snapshot import Observed
from elasticjob_operator.model.timestamps import to_rfc3339
from elasticjob_operator.policy.lifecycle.pod_revisions import has_begun
from elasticjob_operator.policy.lifecycle.replica_sizes import desired_nodes
from elasticjob_operator.policy.lifecycle.unknown_fields import waits
from elasticjob_operator.policy.status.conditions import Judgement, conditions, holds, judge, phase
from elasticjob_operator.policy.status.last_failure import last_failure
from elasticjob_operator.policy.status.nodes import node_statuses, within_limit
from elasticjob_operator.policy.status.outage import judge_without_etcd, with_end
from elasticjob_operator.policy.status.progress import progress
from elasticjob_operator.policy.status.reason import MESSAGE_LIMIT, headline
from elasticjob_operator.policy.status.rounds import noted
from elasticjob_operator.policy.status.status_expiry import etcd_away_since, unconfirmed_from_s
from elasticjob_operator.policy.status.worker_states import count


def is_finished(status: JobStatus) -> bool:
    """The job has ended, and this was written down: it stays so."""
    ended = any(holds(status.conditions, name) for name in (ConditionType.COMPLETE, ConditionType.FAILED))
    return ended or bool(status.completion_time)


def next_status(seen: Observed) -> JobStatus:
    """Return the job's new status."""
    before = seen.status
    if is_finished(before):
        return replace(_with_pods(before, seen), observed_generation=seen.job.metadata.generation)
    if seen.etcd_trouble or seen.view.unclear:
        shown = replace(before, ready_replicas=0, world_size=0) if _is_unconfirmed(seen) else before
        shown = with_end(_with_pods(shown, seen), seen)
        return _with_conditions(shown, seen, {**_unavailability(seen), **judge_without_etcd(seen)})
    rebuilt = _with_rendezvous(_with_pods(_with_times(before, seen), seen), seen)
    return _with_conditions(rebuilt, seen, judge(seen))


def rejected_status(before: JobStatus, message: str, *, now: str, generation: int) -> JobStatus:
    """Return the status of a refused manifest: everything stays as it was, but for the reason."""
    judged = {ConditionType.ACCEPTED: Judgement("False", "InvalidSpec", message)}
    said = conditions(judged, before.conditions, now=now, generation=generation)
    shown = replace(before, observed_generation=generation, conditions=said, phase=phase(said))
    return replace(shown, reason="InvalidSpec", message=message[:MESSAGE_LIMIT])


def _is_unconfirmed(seen: Observed) -> bool:
    from_s = unconfirmed_from_s(seen.job, seen.status)
    return from_s is not None and from_s <= seen.now_s


def _unavailability(seen: Observed) -> dict[ConditionType, Judgement]:
    wanted = (ConditionType.ACCEPTED, ConditionType.UNKNOWN_FIELDS, ConditionType.RENDEZVOUS_UNAVAILABLE)
    judged = {name: judgement for name, judgement in judge(seen).items() if name in wanted}
    was_running = any(c.type == ConditionType.RUNNING and c.status != "False" for c in seen.status.conditions)
    if was_running and _is_unconfirmed(seen):
        message = f"etcd has not answered since {etcd_away_since(seen.status)}; the workers may train on"
        judged[ConditionType.RUNNING] = Judgement("Unknown", ConditionType.RENDEZVOUS_UNAVAILABLE, message)
    return judged


def _with_conditions(status: JobStatus, seen: Observed, judged: dict[ConditionType, Judgement]) -> JobStatus:
    generation = seen.job.metadata.generation
    said: tuple[Condition, ...] = conditions(
        judged, status.conditions, now=to_rfc3339(seen.now_s), generation=generation
    )
    reason, message = headline(seen, said)
    shown = replace(status, observed_generation=generation, conditions=said, phase=phase(said))
    return replace(shown, reason=reason, message=message)


def _with_pods(status: JobStatus, seen: Observed) -> JobStatus:
    pods, wanted = seen.pods.values(), desired_nodes(seen.job.spec)
    scaled = status.desired_replicas not in {0, wanted}
    return replace(
        status,
        last_scale_time=to_rfc3339(seen.now_s) if scaled else status.last_scale_time,
        replicas=sum(pod.live for pod in pods),
        terminating_replicas=sum(pod.terminating for pod in pods),
        desired_replicas=wanted,
        selector=f"{constants.LABEL_JOB_UID}={seen.job.metadata.uid}",
    )


def _with_times(status: JobStatus, seen: Observed) -> JobStatus:
    """A start time begins with each life, so suspending ends it; completionTime is said once."""
    now = to_rfc3339(seen.now_s)
    if seen.view.final:
        return replace(status, start_time=status.start_time or now, completion_time=status.completion_time or now)
    if seen.job.spec.suspend or waits(seen):
        return replace(status, start_time="")
    return replace(status, start_time=status.start_time or now)


def _with_rendezvous(status: JobStatus, seen: Observed) -> JobStatus:
    view, world = seen.view, seen.view.world
    nodes = node_statuses(seen)
    shown, truncated = within_limit(nodes)
    replacements = view.spec.replacements if view.spec else 0
    return replace(
        status,
        ready_replicas=len(view.live_members()),
        rendezvous_round=max(status.rendezvous_round, view.closed_round),
        world_size=_world_size(status, view, nodes),
        last_rendezvous_time=_last_rendezvous_time(status, seen),
        restarts=max(status.restarts, world.restarts if world else 0),
        restarts_count_towards_max=_counting(seen),
        node_losses=max(status.node_losses, world.losses if world else 0),
        pod_replacements=max(status.pod_replacements, replacements),
        worker_states=count(nodes),
        nodes=shown,
        nodes_truncated=truncated,
        rounds=noted(seen.history, view, seen.now_s),
        master_pod=_master_pod(status, seen),
        agent_image=_agent_image(status, seen),
        last_failure=last_failure(seen),
        progress=progress(seen),
    )


def _world_size(status: JobStatus, view: View, nodes: Iterable[NodeStatus]) -> int:
    """Of the active round; of an ended job, of its last: a failed world does not hold it any more."""
    world = view.world
    if world is None:
        return 0
    live = set(view.live_members())
    sizes = zip(world.members, from_run_lengths(world.nprocs, "x"), strict=False)
    size = sum(int(nproc) for member, nproc in sizes if member in live)
    if size or not world.state.final:
        return size
    return sum(len(node.ranks) for node in nodes) if view.membership else status.world_size


def _counting(seen: Observed) -> int:
    """Worker failures that were charged at the last verdict; without a window all of them."""
    world = seen.view.world
    if world is None:
        return seen.status.restarts_count_towards_max
    if not seen.job.spec.restart_window_s:
        return max(seen.status.restarts, world.restarts)
    _, _, ages = world.charges.partition(":")
    return len([age for age in ages.split(",") if age])


def _last_rendezvous_time(status: JobStatus, seen: Observed) -> str:
    active = seen.view.active
    if active is None:
        return status.last_rendezvous_time
    # A round whose members could not be seen for a while is still the same round.
    was_doubted = any(c.type == ConditionType.RUNNING and c.status == "Unknown" for c in status.conditions)
    same = status.rendezvous_round == active.round and (status.ready_replicas > 0 or was_doubted)
    return status.last_rendezvous_time if same else to_rfc3339(seen.now_s)


def _agent_image(status: JobStatus, seen: Observed) -> str:
    """Kept in an ended job's status; of a job that has no pods it says nothing."""
    if seen.view.final:
        return status.agent_image
    revision = seen.ledger.revision if has_begun(seen) else None
    return revision.agent_image if revision else ""


def _master_pod(status: JobStatus, seen: Observed) -> str:
    active = seen.view.active
    if active is None or not active.members:
        return status.master_pod
    return seen.view.owners().get(active.members[0].slot, status.master_pod)

"""The planner of every job, deleted or not: from a snapshot to actions, a status, and the time of the next reconcile.

A plan depends on state alone, never on the event that queued the job. A plan of its own result has no actions. A plan
either writes the spec or acts on the slot map that is written. Pods are created and deleted only for a slot map that
the watch has delivered.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from elasticjob_api.bootstrap import bootstrap_of
from elasticjob_api.status import JobStatus
from elasticjob_operator.model.actions import (
    Action,
    Apply,
    CreatePod,
    DeleteJob,
    DeletePods,
    DeletePrefix,
    ForceDelete,
    GetPod,
    Plan,
    Remove,
    RemoveEtcdUser,
    WriteExpected,
)
from elasticjob_operator.model.cluster_interface import Resource
from elasticjob_operator.model.ids import Ids
from elasticjob_operator.model.job_state import NOTHING, REQUEST_TIMEOUT_S, WATCH_DEADLINE_S
from elasticjob_operator.model.pod import Pod
from elasticjob_operator.model.pod_source import PodSource
from elasticjob_operator.model.revision import Revision
from elasticjob_operator.model.slot_pod import PodState
from elasticjob_operator.model.snapshot import DeletedJob, JobSnapshot, RejectedJob, Snapshot
from elasticjob_operator.model.timestamps import to_rfc3339
from elasticjob_operator.planner.deletion_plan import plan_deletion, plan_quota_violation
from elasticjob_operator.planner.spec_plan import plan_final_spec, plan_spec
from elasticjob_operator.policy.lifecycle.certificates import first_certificate, renewal_s, renewed_certificate
from elasticjob_operator.policy.lifecycle.deadlines import next_active_deadline_s, next_deadline_s
from elasticjob_operator.policy.lifecycle.import_profile import profile_to_keep
from elasticjob_operator.policy.lifecycle.pod_cleanup import cleanup_at_s, pods_to_delete
from elasticjob_operator.policy.lifecycle.resync import is_resync_due
from elasticjob_operator.policy.lifecycle.template_check import must_validate_template
from elasticjob_operator.policy.lifecycle.ttl import expires_at_s
from elasticjob_operator.policy.lifecycle.unknown_fields import is_waiting
from elasticjob_operator.policy.slots.creation_backoff import is_paused
from elasticjob_operator.policy.slots.eviction import evictions
from elasticjob_operator.policy.slots.expected import EXPECTED_FOR_S, expected_slots, must_rewrite
from elasticjob_operator.policy.slots.node_avoidance import avoided_nodes
from elasticjob_operator.policy.slots.replacement_backoff import backing_off
from elasticjob_operator.policy.slots.retained_pods import retained_pods
from elasticjob_operator.policy.slots.stuck_pods import StuckPods, stuck_pods
from elasticjob_operator.policy.status.build import is_finished, next_status, rejected_status
from elasticjob_operator.policy.status.status_expiry import status_expires_at_s
from elasticjob_operator.render.disruption_budget import has_disruption_budget, render_disruption_budget
from elasticjob_operator.render.service import render_service

_STATUS_VISIBLE_S = 1.0
"""Time after which a job's status has been written if the API server responds."""


def plan(snapshot: Snapshot, ids: Ids) -> Plan:
    """Return the next plan of a job that is deleted, rejected or accepted."""
    match snapshot:
        case DeletedJob():
            return plan_deletion(snapshot)
        case RejectedJob():
            return _plan_rejected(snapshot)
        case JobSnapshot():
            return _plan_accepted(snapshot, ids)


def _plan_rejected(job: RejectedJob) -> Plan:
    status = rejected_status(job.status, job.message, now=to_rfc3339(job.now_s), generation=job.generation)
    # The job's pods still run, with its certificate, so its quota still applies.
    return Plan(actions=plan_quota_violation(job), status=status)


def _plan_accepted(snapshot: JobSnapshot, ids: Ids) -> Plan:
    status = next_status(snapshot)
    if not snapshot.is_readable:
        return _plan_without_etcd(snapshot, status)
    if snapshot.view.quota_violation and not snapshot.view.empty:
        return _quota_exceeded(snapshot, status)
    if is_finished(status):
        final = plan_final_spec(snapshot, status, ids)
        return _plan_finished(snapshot, status) if final is None else Plan(actions=(final,), status=status)
    stuck, forced = _stuck_actions(snapshot)
    if is_waiting(snapshot):
        return Plan(actions=forced, status=status, requeue_in_s=stuck.next_in_s)
    actions = (*first_certificate(snapshot), *forced, *_actions(snapshot, status, ids))
    again_s = _earliest_s(_requeue_after_s(snapshot, status), stuck.next_in_s)
    return Plan(actions=actions, status=status, requeue_in_s=again_s)


def _plan_without_etcd(snapshot: JobSnapshot, status: JobStatus) -> Plan:
    """Return the plan while etcd does not respond or the rendezvous is unreadable."""
    # Only actions that do not depend on the rendezvous: a suspension, a deadline and an end are in the API server.
    if is_finished(status):
        return _plan_finished(snapshot, status)
    if not snapshot.job.spec.suspend or snapshot.view.is_final:
        moments_s = (next_active_deadline_s(snapshot.job, status), status_expires_at_s(snapshot.job, status))
        return Plan(status=status, requeue_in_s=_earliest_s(*_seconds_until(snapshot.now_s, *moments_s)))
    stuck, forced = _stuck_actions(snapshot)
    return Plan(actions=(*forced, *_deletion(snapshot.pods.values())), status=status, requeue_in_s=stuck.next_in_s)


def _deletion(pods: Iterable[Pod], spec_revision: int | None = None) -> tuple[DeletePods, ...]:
    """Return the deletion of those pods that are not terminating yet."""
    to_delete = {pod.name: pod.uid for pod in pods if not pod.terminating}
    return (DeletePods(to_delete, spec_revision),) if to_delete else ()


def _quota_exceeded(snapshot: JobSnapshot, status: JobStatus) -> Plan:
    """Return the plan for a job that exceeds its quota of etcd."""
    # Remove the job's etcd user now; delete pods and keys once the status with the reason has been written.
    actions: list[Action] = [RemoveEtcdUser()] if snapshot.settings.etcd_tls else []
    if is_finished(snapshot.status):
        actions += [*_deletion(snapshot.pods.values()), DeletePrefix()]
    return Plan(actions=tuple(actions), status=status, requeue_in_s=_STATUS_VISIBLE_S)


def _plan_finished(snapshot: JobSnapshot, status: JobStatus) -> Plan:
    """Return the plan for a finished job: nothing is created; pods and the job are deleted when they are due."""
    expiry_s, cleaning_s = expires_at_s(snapshot.job, status), cleanup_at_s(snapshot.job, status)
    if expiry_s is not None and expiry_s <= snapshot.now_s:
        return Plan(actions=(DeleteJob(snapshot.job.metadata.uid),), status=status)
    actions: tuple[Action, ...] = _deletion(
        pods_to_delete(snapshot.job, status, snapshot.pods.values(), snapshot.now_s)
    )
    if snapshot.is_readable:
        actions += (*profile_to_keep(snapshot, status),)
    stuck, forced = _stuck_actions(snapshot)
    again_s = _earliest_s(*_seconds_until(snapshot.now_s, expiry_s, cleaning_s), stuck.next_in_s)
    return Plan(actions=(*forced, *actions), status=status, requeue_in_s=again_s)


def _stuck_actions(snapshot: JobSnapshot) -> tuple[StuckPods, tuple[ForceDelete, ...]]:
    timeout_s, pods = snapshot.job.spec.stuck_pod_timeout_s, snapshot.pods.values()
    stuck = stuck_pods(timeout_s, pods, snapshot.job_state, now_s=snapshot.now_s, monotonic_s=snapshot.monotonic_s)
    only_proof = snapshot.job.spec.pod_replacement_policy == "Failed"
    return stuck, tuple(ForceDelete(pod.name, pod.uid, pod.node_name, only_proof) for pod in stuck.pods)


def _actions(snapshot: JobSnapshot, status: JobStatus, ids: Ids) -> Iterator[Action]:
    judged = evictions(snapshot.view, snapshot.pods, snapshot.job_state)
    yield from judged.evict
    if (change := plan_spec(snapshot, status, ids)) is not None:
        yield change
        return
    owners = snapshot.owners
    unknown = {owner.name for owner in owners.values() if owner.state is PodState.UNKNOWN}
    names = sorted(unknown.union(judged.get_pods))
    yield from (GetPod(name, judged.get_pods.get(name, frozenset())) for name in names)
    yield from _creations(snapshot)
    yield from _deletions(snapshot)
    yield from _expectations(snapshot)
    if owners and _resync(snapshot):  # last: pods must not depend on its success
        yield from _disruption_budget(snapshot)
    yield from renewed_certificate(snapshot)
    yield from profile_to_keep(snapshot, status)


def _creations(snapshot: JobSnapshot) -> Iterator[Action]:
    owners, waiting_slots = snapshot.owners, snapshot.waiting_slots
    to_create = {slot: owner.name for slot, owner in owners.items() if owner.state is PodState.PENDING_CREATE}
    missing = {slot: name for slot, name in to_create.items() if slot not in waiting_slots}
    if missing or (owners and _resync(snapshot)):
        yield from _applied(snapshot, Resource.SERVICE, render_service(snapshot.job))
    revision = snapshot.job_state.revision
    if revision is None:
        return  # the revision of new pods depends on existing pods, which may not all be known yet
    if missing and not is_paused(snapshot.job_state.failed_creation, snapshot.monotonic_s):
        source = _pod_source(snapshot, revision)
        first = min(missing) if must_validate_template(snapshot) else None
        creations = sorted(missing.items())
        yield from (CreatePod(name, slot, source, strict=slot == first) for slot, name in creations)


def _resync(snapshot: JobSnapshot) -> bool:
    return is_resync_due(snapshot.job_state, snapshot.pods, snapshot.monotonic_s)


def _pod_source(snapshot: JobSnapshot, revision: Revision) -> PodSource:
    spec, avoided = snapshot.view.spec, avoided_nodes(snapshot.job_state, snapshot.monotonic_s)
    bootstrap = None if spec is None else bootstrap_of(spec, snapshot.view.spec_revision)
    kept = snapshot.status.keep
    persisted_step = None if kept is None else kept.persisted_step
    return PodSource(snapshot.job, snapshot.settings, revision, avoided, bootstrap, persisted_step)


def _disruption_budget(snapshot: JobSnapshot) -> Iterator[Action]:
    if has_disruption_budget(snapshot.job):
        yield from _applied(snapshot, Resource.DISRUPTION_BUDGET, render_disruption_budget(snapshot.job))
    elif snapshot.job_state.applied.get(Resource.DISRUPTION_BUDGET) != NOTHING:
        yield Remove(Resource.DISRUPTION_BUDGET)


def _applied(snapshot: JobSnapshot, resource: Resource, body: Mapping[str, Any]) -> Iterator[Action]:
    if snapshot.job_state.applied.get(resource) != body:
        yield Apply(resource, body)


def _deletions(snapshot: JobSnapshot) -> Iterator[Action]:
    """Return the deletion of pods that the slot map does not name, except for some failed ones (`retained_pods`).

    The executor reads the spec again before it deletes them. If a job that is not suspended has no slot map, only pods
    of another template are deleted; the others will be adopted. A restored slot map is older than the pods. So while a
    slot's own pod may not exist, live pods of that slot are kept.
    """
    owners = snapshot.owners
    named = {owner.name for owner in owners.values()}
    unclear = {slot for slot, owner in owners.items() if owner.state in {PodState.UNKNOWN, PodState.ABSENT}}
    outdated = snapshot.outdated_pods
    unmapped = snapshot.view.spec is None and not snapshot.job.spec.suspend
    pods = (outdated if unmapped else snapshot.pods).values()
    unnamed = [pod for pod in pods if pod.name not in named and not pod.terminating]
    retained = {pod.name for pod in unnamed if pod.is_live and pod.slot in unclear and pod.name not in outdated}
    retained |= set() if snapshot.job.spec.suspend else retained_pods(unnamed, named=named)
    yield from _deletion((pod for pod in unnamed if pod.name not in retained), snapshot.view.spec_revision)


def _expectations(snapshot: JobSnapshot) -> Iterator[Action]:
    joined = snapshot.joined_slots
    owners = {slot: owner for slot, owner in snapshot.owners.items() if slot not in snapshot.waiting_slots}
    refused = snapshot.job_state.failed_creation is not None
    wanted = expected_slots(owners, joined=joined, now_s=snapshot.now_s, refused=refused)
    if snapshot.view.spec is not None and must_rewrite(snapshot.view.expected, wanted, joined=joined):
        yield WriteExpected(wanted, snapshot.view.spec_revision)


def _requeue_after_s(snapshot: JobSnapshot, status: JobStatus) -> float | None:
    """Return seconds until the plan changes without any event, or None."""
    expected = [pod.created_s + EXPECTED_FOR_S for pod in snapshot.pods.values() if pod.is_live]
    deadline_s = next_deadline_s(snapshot.job, status, snapshot.view, snapshot.now_s)
    wall = _seconds_until(snapshot.now_s, deadline_s, renewal_s(snapshot), *expected)
    watch_deadlines_s = [since_s + WATCH_DEADLINE_S for since_s in snapshot.job_state.created_at_s.values()]
    lost_s = snapshot.lost_pods.check_at_s
    resync_s = None if _resync(snapshot) else snapshot.job_state.resync_at_s
    failed = snapshot.job_state.failed_creation
    creation_s = None if failed is None else failed.retry_at_s
    retries_s = backing_off(snapshot.job_state.slot_histories, snapshot.monotonic_s).values()
    timeouts_s = (
        [sent_s + REQUEST_TIMEOUT_S for _, sent_s in snapshot.job_state.sent_creations.values()]
        if snapshot.waiting_slots
        else []
    )
    monotonic = _seconds_until(
        snapshot.monotonic_s, lost_s, resync_s, creation_s, *watch_deadlines_s, *retries_s, *timeouts_s
    )
    return _earliest_s(*wall, *monotonic)


def _seconds_until(now_s: float, *moments_s: float | None) -> list[float]:
    """Return the seconds until each future moment, by the clock of `now_s`."""
    return [moment_s - now_s for moment_s in moments_s if moment_s is not None and moment_s > now_s]


def _earliest_s(*delays_s: float | None) -> float | None:
    return min((delay_s for delay_s in delays_s if delay_s is not None), default=None)

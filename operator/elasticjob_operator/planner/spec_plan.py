"""The next write of the spec, or none. Ownership of slots, suspension and failure are decided here alone.

The operator's own transitions of the rendezvous are suspension, resumption, success out of a suspension, and failure.
Each is one transaction with the spec. Nothing is written after a final state. The record is compared as a whole. So it
is written if, and only if, the job, the pods or the budget changed it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from elasticjob_api.constants import ConditionType, FailedReason
from elasticjob_api.job_failure import JobFailure
from elasticjob_api.records import SlotOwner, SpecRecord
from elasticjob_api.rendezvous_state import RendezvousState, RoundPhase
from elasticjob_api.status import JobStatus
from elasticjob_operator.model.actions import WriteSpec
from elasticjob_operator.model.event import Event
from elasticjob_operator.model.ids import Ids
from elasticjob_operator.model.pod import Pod
from elasticjob_operator.model.slot_pod import PodState, SlotPod
from elasticjob_operator.model.snapshot import JobSnapshot
from elasticjob_operator.model.text import pluralize
from elasticjob_operator.model.timestamps import from_rfc3339
from elasticjob_operator.policy.lifecycle import state_transitions
from elasticjob_operator.policy.lifecycle.deadlines import exceeded_deadline
from elasticjob_operator.policy.lifecycle.failure_batches import batches
from elasticjob_operator.policy.lifecycle.import_profile import profile_name
from elasticjob_operator.policy.lifecycle.pod_revisions import has_pods, is_revision_outdated, template_changed_event
from elasticjob_operator.policy.lifecycle.spec_record import first_record, spec_record
from elasticjob_operator.policy.slots.assignment import adopt, next_slots, unnamed_pods
from elasticjob_operator.policy.slots.expected import expected_slots
from elasticjob_operator.policy.slots.replacement import (
    PodDecisions,
    decide_pods,
    is_counted,
    is_over_budget,
    matching_rule,
)
from elasticjob_operator.policy.slots.replacement_backoff import backing_off
from elasticjob_operator.policy.slots.restored_map import pods_after_map
from elasticjob_operator.policy.slots.retained_pods import failed_before
from elasticjob_operator.policy.status.pod_messages import describe_exit, describe_replacements


@dataclass(frozen=True, slots=True)
class SpecContext:
    """The input of every decision in this module."""

    snapshot: JobSnapshot
    status: JobStatus
    ids: Ids
    previous: SpecRecord
    """The record in etcd, or an initial one if there is none."""
    decisions: PodDecisions

    def new_name(self, slot: int) -> str:
        """Return a pod name that was never used."""
        return f"{self.snapshot.job.metadata.name}-{slot}-{self.ids.suffix()}"


def plan_spec(snapshot: JobSnapshot, status: JobStatus, ids: Ids) -> WriteSpec | None:
    """Return the next write of the spec, or None; the rendezvous state is not final.

    `status` is the status that is about to be written.
    """
    view = snapshot.view
    before = view.spec or first_record(snapshot.job, snapshot.status, snapshot.settings.operator_id)
    context = SpecContext(snapshot, status, ids, before, _pod_decisions(snapshot))
    if snapshot.job.spec.suspend:
        return _plan_suspended(context)
    if failure := _failure(context):
        return _fail(context, failure)
    if has_pods(snapshot):
        return _end_pod_revision(context) if is_revision_outdated(snapshot) else _update(context)
    if state_transitions.finished_before_suspension(view):
        return _plan_suspended(context)
    return None if snapshot.outdated_pods else _create(context)  # pods of an earlier template are deleted first


def plan_final_spec(snapshot: JobSnapshot, status: JobStatus, ids: Ids) -> WriteSpec | None:
    """Return the write of a final state for a job that failed while etcd did not respond; its agents then exit."""
    view = snapshot.view
    failed = next((c for c in status.conditions if c.type == ConditionType.FAILED and c.status == "True"), None)
    if failed is None or view.spec is None or (view.state is not None and view.state.phase.is_final):
        return None
    context = SpecContext(snapshot, status, ids, view.spec, PodDecisions({}))
    reason = FailedReason(failed.reason) if failed.reason in set(FailedReason) else FailedReason.DEADLINE
    return _fail(context, JobFailure(reason, failed.message))


def _pod_decisions(snapshot: JobSnapshot) -> PodDecisions:
    later = frozenset(backing_off(snapshot.job_state.slot_histories, snapshot.monotonic_s))
    retained, lost = _retained_slots(snapshot), snapshot.lost_pods.uids
    return decide_pods(snapshot.job.spec, snapshot.owners, retained=retained, lost=lost, later=later)


def _retained_slots(snapshot: JobSnapshot) -> frozenset[int]:
    """Return the slots of finished members; none if all have finished and no agent is left.

    The agents may all die before their leader ends the job. Then the agent of a new pod leads, and ends it.
    """
    view = snapshot.view
    completed = view.completed_slots()
    if not completed or view.agents() or (state := view.active_state) is None:
        return completed
    return frozenset() if completed == {member.slot for member in state.members} else completed


def _failure(context: SpecContext) -> JobFailure | None:
    """Return the failure that the operator decides: by a failure rule, by the budget, or by a deadline; or None."""
    spec, owners = context.snapshot.job.spec, context.snapshot.owners
    if context.decisions.failing_slots:
        owner = owners[context.decisions.failing_slots[0]]
        return JobFailure(
            FailedReason.FAIL_JOB_RULE, f"{_matching_rule(context, owner)} ends the job: {_describe_pod(owner)}"
        )
    failed = context.previous.replacements + _charged_failures(context)
    if is_over_budget(spec, failed):
        last = next((_describe_pod(o) for o in owners.values() if o.state is PodState.FAILED), "")
        message = f"{pluralize(failed, 'pod failure')}, more than backoffLimit ({spec.backoff_limit})"
        return JobFailure(FailedReason.BACKOFF_LIMIT, f"{message}; the last: {last}" if last else message)
    return exceeded_deadline(context.snapshot.job, context.status, context.snapshot.view, context.snapshot.now_s)


def _matching_rule(context: SpecContext, owner: SlotPod) -> str:
    rule = matching_rule(context.snapshot.job.spec, owner.pod) if owner.pod else None
    return f"failure rule {rule.name}" if rule and rule.name else "a failure rule"


def _describe_pod(owner: SlotPod) -> str:
    pod = owner.pod
    if pod is None:
        return owner.name
    return f"pod {pod.name}: {describe_exit(pod)}"


def _fail(context: SpecContext, failure: JobFailure) -> WriteSpec:
    record = _record(context, {}, suspended=False)
    state = state_transitions.failed_state(context.snapshot.view.state, context.previous, failure, context.ids.nonce())
    return _write(context, record, state)


def _plan_suspended(context: SpecContext) -> WriteSpec | None:
    view = context.snapshot.view
    if view.spec is None and view.state is None:
        return None  # a job that is created suspended has no keys at all
    record = _record(context, {}, suspended=True)
    if state_transitions.finished_before_suspension(view) and view.state is not None:
        return _write(context, record, state_transitions.succeeded_state(view.state, context.ids.nonce()))
    if record == view.spec:
        return None
    state = view.state
    if state is None or state.phase is RoundPhase.SUSPENDED:
        return _write(context, record, None)
    return _write(context, record, state_transitions.suspended_state(state, context.ids.nonce()))


def _end_pod_revision(context: SpecContext) -> WriteSpec | None:
    """Return the suspension that ends all pods of an outdated template; the next plan resumes the job."""
    write = _plan_suspended(context)
    return None if write is None else replace(write, events=(template_changed_event(),))


def _create(context: SpecContext) -> WriteSpec:
    """Return the first slot map of a job, or the first after a suspension; all of its slots are expected."""
    view, wanted = context.snapshot.view, context.snapshot.job.spec.desired_nodes
    # After a suspension no earlier pod is adopted: its agent would still be in an old round.
    is_first = view.spec is None and not _is_suspended(view.state)
    pods = context.snapshot.pods if is_first else {pod.name: pod for pod in _pods_after_map(context).values()}
    slots = adopt(pods, wanted=wanted, new_name=context.new_name)
    record = _record(context, slots, suspended=False)
    state = view.state
    opened = state_transitions.resumed_state(state, context.ids.nonce()) if state and _is_suspended(state) else None
    return _write(context, record, opened, expected=frozenset(slots))


def _is_suspended(state: RendezvousState | None) -> bool:
    return state is not None and state.phase is RoundPhase.SUSPENDED


def _update(context: SpecContext) -> WriteSpec | None:
    snapshot, view = context.snapshot, context.snapshot.view
    assert view.spec is not None
    current = view.spec.slots
    # Once a member has completed, the job is not resized: that would restart workers that are about to end. But it has
    # no more slots than its maximum or the number of its pods, because its agents can write both map and completions.
    most = max(snapshot.job.spec.effective_max, len(snapshot.pods.keys() & view.owners().values()))
    wanted = min(len(current), most) if view.completed_slots() else snapshot.job.spec.desired_nodes
    newer = _pods_after_map(context)
    slots = next_slots(
        current,
        wanted=wanted,
        dropped=context.decisions.removed_slots | newer.keys(),
        with_agent=snapshot.joined_slots,
        new_name=context.new_name,
        unnamed=_unnamed_pods(context) | {slot: pod.name for slot, pod in newer.items()},
    )
    record = _record(context, slots, suspended=False)
    if record == view.spec:
        return None
    fresh = frozenset(slot for slot, owner in slots.items() if owner != current.get(slot))
    write = _write(context, record, None, expected=_expected(snapshot, slots, fresh) if fresh else None)
    return replace(write, events=tuple(_events(context, record, frozenset(slots))))


def _pods_after_map(context: SpecContext) -> dict[int, Pod]:
    """Return the pods that are newer than the map, by slot: etcd was restored from a backup."""
    snapshot = context.snapshot
    pods, owners, lost = _adoptable_pods(context), snapshot.owners, snapshot.lost_pods.uids
    return pods_after_map(pods, owners, map_revision=snapshot.view.spec_revision, lost=lost)


def _unnamed_pods(context: SpecContext) -> dict[int, str]:
    """Return pods that the map does not name, by slot: those with a live agent, or all if etcd was restored."""
    snapshot, dropped = context.snapshot, context.decisions.removed_slots
    is_restored = snapshot.view.closed_round < context.status.rendezvous_round  # etcd is older than the status
    agents = snapshot.view.agents()
    pods = [pod for pod in _adoptable_pods(context) if is_restored or pod.uid in agents]
    return unnamed_pods(pods, snapshot.owners, dropped=dropped)


def _adoptable_pods(context: SpecContext) -> list[Pod]:
    """Return the pods of this template that are not older than the job's start or its last resume."""
    # Agents of older pods would join again with a round from before the suspension.
    snapshot, since_s = context.snapshot, from_rfc3339(context.status.start_time)
    pods = [] if since_s is None else [pod for pod in snapshot.pods.values() if pod.created_s >= since_s]
    return [pod for pod in pods if pod.name not in snapshot.outdated_pods]


def _events(context: SpecContext, record: SpecRecord, slots: frozenset[int]) -> Iterator[Event]:
    replaced = {slot: decision for slot, decision in context.decisions.by_slot.items() if slot in slots}
    left = max(0, context.snapshot.job.spec.backoff_limit - record.replacements)
    return describe_replacements(context.snapshot.owners, replaced, charged=_charged_failures(context), left=left)


def _expected(snapshot: JobSnapshot, slots: Mapping[int, SlotOwner], fresh: frozenset[int]) -> frozenset[int]:
    refused = snapshot.job_state.failed_creation is not None
    soon = expected_slots(snapshot.owners, joined=snapshot.joined_slots, now_s=snapshot.now_s, refused=refused)
    return (frozenset() if refused else fresh) | (soon & frozenset(slots))


def _record(context: SpecContext, slots: Mapping[int, SlotOwner], *, suspended: bool) -> SpecRecord:
    return spec_record(
        context.snapshot.job, context.previous, slots, suspended=suspended, counted=_charged_failures(context)
    )


def _charged_failures(context: SpecContext) -> int:
    """Return how much the pods that fail now add to the count of failures."""
    snapshot, owners = context.snapshot, context.snapshot.owners
    failing = [pod for slot in context.decisions.counted_slots if (pod := owners[slot].pod) is not None]
    before = failed_before(snapshot.pods.values(), named={owner.name for owner in owners.values()})
    return batches(failing, (pod for pod in before if is_counted(snapshot.job.spec, pod)))


def _write(
    context: SpecContext, record: SpecRecord, state: RendezvousState | None, *, expected: frozenset[int] | None = None
) -> WriteSpec:
    named = set(context.snapshot.view.owners().values()) | set(context.snapshot.pods)
    spec_revision = context.snapshot.view.spec_revision
    return WriteSpec(
        record=record,
        spec_revision=spec_revision,
        state_revision=context.snapshot.view.state_revision,
        state=state,
        expected=expected,
        expected_pods=frozenset(owner.pod for owner in record.slots.values() if owner.pod not in named),
        import_profile="" if spec_revision else profile_name(context.snapshot.job, context.snapshot.settings),
    )

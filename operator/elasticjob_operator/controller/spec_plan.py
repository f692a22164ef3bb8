"""PURE: the next write of the spec, or none: the one place where ownership, suspension and failure are decided.

The rows of the protocol that are the operator's: suspend, resume, success out of suspension, and its own verdict
of failure are each one transaction with the spec. Nothing is written after a final world. The record is compared
as a whole, so any change of the job, the pods or the budget is a reason to write, and nothing else is.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from elasticjob_api.constants import ConditionType, FailedReason
from elasticjob_api.records import SlotOwner, Slots
from elasticjob_api.rendezvous_state import State, World
from elasticjob_api.status import JobStatus
from elasticjob_operator.controller.ids import Ids
from elasticjob_operator.model.actions import WriteSpec
from elasticjob_operator.model.event import Event
from elasticjob_operator.model.snapshot import Observed
from elasticjob_operator.model.text import counted
from elasticjob_operator.model.timestamps import from_rfc3339
from elasticjob_operator.policy.lifecycle import state_transitions
from elasticjob_operator.policy.lifecycle.deadlines import broken_deadline
from elasticjob_operator.policy.lifecycle.failure_batches import batches
from elasticjob_operator.policy.lifecycle.job_failure import JobFailure
from elasticjob_operator.policy.lifecycle.pod_revisions import has_begun, is_life_outdated, template_changed
from elasticjob_operator.policy.lifecycle.replica_sizes import desired_nodes
from elasticjob_operator.policy.lifecycle.spec_record import first_record, spec_record
from elasticjob_operator.policy.slots.assignment import adopted, next_slots, unnamed_pods
from elasticjob_operator.policy.slots.expected import expected_slots
from elasticjob_operator.policy.slots.lost_pods import lost_pods
from elasticjob_operator.policy.slots.ownership import Owner, Standing
from elasticjob_operator.policy.slots.replacement import Fates, fates, is_counted, is_over_budget, matching_rule
from elasticjob_operator.policy.slots.replacement_backoff import waiting
from elasticjob_operator.policy.slots.retained_pods import failed_before
from elasticjob_operator.policy.status.pod_messages import how_it_ended, replacements


@dataclass(frozen=True, slots=True)
class Scene:
    """What every decision here looks at."""

    seen: Observed
    status: JobStatus
    ids: Ids
    before: Slots
    """The record as it is, or what stands for it while there is none."""
    fates: Fates

    def new_name(self, slot: int) -> str:
        """A pod name that was never used."""
        return f"{self.seen.job.metadata.name}-{slot}-{self.ids.suffix()}"


def spec_change(seen: Observed, status: JobStatus, ids: Ids) -> WriteSpec | None:
    """What to write, from a world that is not final; `status` is the one that is about to be said."""
    view = seen.view
    before = view.spec or first_record(seen.job, seen.status, seen.settings.operator_id)
    scene = Scene(seen, status, ids, before, _fates(seen))
    if seen.job.spec.suspend:
        return _while_suspended(scene)
    if failure := _failure(scene):
        return _fail(scene, failure)
    if has_begun(seen):
        return _end_life(scene) if is_life_outdated(seen) else _amend(scene)
    if state_transitions.finished_before_suspension(view):
        return _while_suspended(scene)
    return None if seen.outdated_pods else _begin(scene)  # those of the life before are asked to go first


def end_in_etcd(seen: Observed, status: JobStatus, ids: Ids) -> WriteSpec | None:
    """The final world of a job that a deadline ended while etcd was away; its agents then end."""
    view = seen.view
    failed = next((c for c in status.conditions if c.type == ConditionType.FAILED and c.status == "True"), None)
    if failed is None or view.spec is None or (view.world is not None and view.world.state.final):
        return None
    scene = Scene(seen, status, ids, view.spec, Fates({}))
    reason = FailedReason(failed.reason) if failed.reason in set(FailedReason) else FailedReason.DEADLINE
    return _fail(scene, JobFailure(reason, failed.message))


def _fates(seen: Observed) -> Fates:
    lost = lost_pods(seen.job.spec, seen.ledger, seen.monotonic_s)
    later = frozenset(waiting(seen.ledger.courses, seen.monotonic_s))
    return fates(seen.job.spec, seen.owners(), kept=seen.view.done_slots(), lost=lost.uids, later=later)


def _failure(scene: Scene) -> JobFailure | None:
    """The operator's own verdicts, a rule before a budget before a deadline."""
    spec, owners = scene.seen.job.spec, scene.seen.owners()
    if scene.fates.failing:
        owner = owners[scene.fates.failing[0]]
        return JobFailure(FailedReason.FAIL_JOB_RULE, f"{_rule(scene, owner)} ends the job: {_describe(owner)}")
    failed = scene.before.replacements + _charged(scene)
    if is_over_budget(spec, failed):
        last = next((_describe(o) for o in owners.values() if o.standing is Standing.FAILED), "")
        message = f"{counted(failed, 'pod failure')}, more than backoffLimit ({spec.backoff_limit})"
        return JobFailure(FailedReason.BACKOFF_LIMIT, f"{message}; the last: {last}" if last else message)
    return broken_deadline(scene.seen.job, scene.status, scene.seen.view, scene.seen.now_s)


def _rule(scene: Scene, owner: Owner) -> str:
    rule = matching_rule(scene.seen.job.spec, owner.pod) if owner.pod else None
    return f"failure rule {rule.name}" if rule and rule.name else "a failure rule"


def _describe(owner: Owner) -> str:
    pod = owner.pod
    if pod is None:
        return owner.name
    return f"pod {pod.name}: {how_it_ended(pod)}"


def _fail(scene: Scene, failure: JobFailure) -> WriteSpec:
    record = _record(scene, {}, suspended=False)
    world = state_transitions.failed(scene.seen.view.world, scene.before, failure, scene.ids.nonce())
    return _write(scene, record, world)


def _while_suspended(scene: Scene) -> WriteSpec | None:
    view = scene.seen.view
    if view.spec is None and view.world is None:
        return None  # a job that is created suspended has no keys at all
    record = _record(scene, {}, suspended=True)
    if state_transitions.finished_before_suspension(view) and view.world is not None:
        return _write(scene, record, state_transitions.succeeded(view.world, scene.ids.nonce()))
    if record == view.spec:
        return None
    world = view.world
    if world is None or world.state is State.SUSPENDED:
        return _write(scene, record, None)
    return _write(scene, record, state_transitions.suspended(world, scene.ids.nonce()))


def _end_life(scene: Scene) -> WriteSpec | None:
    """The suspension that nobody has seen; the next look resumes."""
    write = _while_suspended(scene)
    return None if write is None else replace(write, news=(template_changed(),))


def _begin(scene: Scene) -> WriteSpec:
    """The first map, or the first after a suspension; all of its slots are expected."""
    view, wanted = scene.seen.view, desired_nodes(scene.seen.job.spec)
    # After a suspension no pod of the life before may stay: their agents would bring their old rounds along.
    pods = scene.seen.pods if view.spec is None and not _is_suspended(view.world) else {}
    slots = adopted(pods, wanted=wanted, new_name=scene.new_name)
    record = _record(scene, slots, suspended=False)
    world = view.world
    opened = state_transitions.resumed(world, scene.ids.nonce()) if world and _is_suspended(world) else None
    return _write(scene, record, opened, expected=frozenset(slots))


def _is_suspended(world: World | None) -> bool:
    return world is not None and world.state is State.SUSPENDED


def _amend(scene: Scene) -> WriteSpec | None:
    seen, view = scene.seen, scene.seen.view
    assert view.spec is not None
    current = {int(slot, 16): owner for slot, owner in view.spec.slots.items()}
    # Once a member has finished, a job is not resized any more: it would restart what is about to end. But neither
    # does it keep more slots than it may have or has pods: the map and the finished members are claims of its own.
    most = max(seen.job.spec.highest, len(seen.pods.keys() & view.owners().values()))
    wanted = min(len(current), most) if view.done_slots() else desired_nodes(seen.job.spec)
    slots = next_slots(
        current,
        wanted=wanted,
        dropped=scene.fates.dropped,
        with_agent=seen.joined(),
        new_name=scene.new_name,
        unnamed=_unnamed(scene),
    )
    record = _record(scene, slots, suspended=False)
    if record == view.spec:
        return None
    fresh = frozenset(slot for slot, owner in slots.items() if owner != current.get(slot))
    write = _write(scene, record, None, expected=_expected(seen, slots, fresh) if fresh else None)
    return replace(write, news=tuple(_news(scene, record, frozenset(slots))))


def _unnamed(scene: Scene) -> dict[int, str]:
    """Of pods that the map does not name: those with a live agent, and all where etcd is older than the status."""
    seen, outdated = scene.seen, scene.seen.outdated_pods
    is_restored = seen.view.closed_round < scene.status.rendezvous_round
    agents = seen.view.agents()
    pods = {name: pod for name, pod in seen.pods.items() if name not in outdated and (is_restored or pod.uid in agents)}
    return unnamed_pods(pods, scene.seen.owners(), since_s=from_rfc3339(scene.status.start_time))


def _news(scene: Scene, record: Slots, slots: frozenset[int]) -> Iterator[Event]:
    going = {slot: fate for slot, fate in scene.fates.by_slot.items() if slot in slots}
    left = max(0, scene.seen.job.spec.backoff_limit - record.replacements)
    return replacements(scene.seen.owners(), going, charged=_charged(scene), left=left)


def _expected(seen: Observed, slots: Mapping[int, SlotOwner], fresh: frozenset[int]) -> frozenset[int]:
    refused = seen.ledger.failed_creation is not None
    soon = expected_slots(seen.owners(), joined=seen.joined(), now_s=seen.now_s, refused=refused)
    return (frozenset() if refused else fresh) | (soon & frozenset(slots))


def _record(scene: Scene, slots: Mapping[int, SlotOwner], *, suspended: bool) -> Slots:
    return spec_record(scene.seen.job, scene.before, slots, suspended=suspended, counted=_charged(scene))


def _charged(scene: Scene) -> int:
    """What the pods that fail now add to the count."""
    seen, owners = scene.seen, scene.seen.owners()
    failing = [pod for slot in scene.fates.counted if (pod := owners[slot].pod) is not None]
    before = failed_before(seen.pods.values(), named={owner.name for owner in owners.values()})
    return batches(failing, (pod for pod in before if is_counted(seen.job.spec, pod)))


def _write(scene: Scene, record: Slots, world: World | None, *, expected: frozenset[int] | None = None) -> WriteSpec:
    named = set(scene.seen.view.owners().values()) | set(scene.seen.pods)
    return WriteSpec(
        record=record,
        spec_revision=scene.seen.view.spec_revision,
        world_revision=scene.seen.view.world_revision,
        world=world,
        expected=expected,
        proposed=frozenset(owner.pod for owner in record.slots.values() if owner.pod not in named),
    )

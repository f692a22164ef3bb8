"""PURE: what the operator does next for one job: (what is seen, fresh names) → actions, status, when to look again.

A plan is made from state alone, never from the event that woke it, and planning again from the outcome gives
nothing to do. It either writes the spec or acts on the written map. A pod is created or deleted only from a map that
came back through the watch.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from elasticjob_api.bootstrap import brief_of
from elasticjob_api.status import JobStatus
from elasticjob_operator.controller.ids import Ids
from elasticjob_operator.controller.spec_plan import end_in_etcd, spec_change
from elasticjob_operator.model.actions import (
    Action,
    Apply,
    CreatePod,
    DeleteJob,
    DeletePods,
    DeletePrefix,
    Disown,
    Evict,
    ForceDelete,
    LookPod,
    Plan,
    Remove,
    WriteExpected,
)
from elasticjob_operator.model.cluster_interface import Resource
from elasticjob_operator.model.job_state import LANDED_WITHIN_S, NOTHING, SHOWN_WITHIN_S
from elasticjob_operator.model.pod import Pod
from elasticjob_operator.model.revision import Revision
from elasticjob_operator.model.snapshot import Observed
from elasticjob_operator.policy.lifecycle.certificates import first_certificate, renewal_s, renewed_certificate
from elasticjob_operator.policy.lifecycle.deadlines import next_deadline_s, next_life_deadline_s
from elasticjob_operator.policy.lifecycle.pod_cleanup import clean_at_s, pods_to_delete
from elasticjob_operator.policy.lifecycle.resync import keeps_up
from elasticjob_operator.policy.lifecycle.template_check import judges_template
from elasticjob_operator.policy.lifecycle.ttl import expires_at_s
from elasticjob_operator.policy.lifecycle.unknown_fields import waits
from elasticjob_operator.policy.slots.creation_backoff import is_paused
from elasticjob_operator.policy.slots.eviction import evictions
from elasticjob_operator.policy.slots.expected import EXPECTED_FOR_S, expected_slots, must_rewrite
from elasticjob_operator.policy.slots.lost_pods import lost_pods
from elasticjob_operator.policy.slots.node_avoidance import avoided_nodes
from elasticjob_operator.policy.slots.ownership import Owner, Standing
from elasticjob_operator.policy.slots.replacement_backoff import waiting
from elasticjob_operator.policy.slots.retained_pods import retained_pods
from elasticjob_operator.policy.slots.stuck_pods import Stuck, stuck_pods
from elasticjob_operator.policy.status.build import is_finished, next_status
from elasticjob_operator.policy.status.status_expiry import unconfirmed_from_s
from elasticjob_operator.render.disruption_budget import has_budget, render_budget
from elasticjob_operator.render.pod_source import PodSource
from elasticjob_operator.render.service import render_service

_SAID_WITHIN_S = 1.0
"""A job's status has been written by then, if the API server answers."""


def plan(seen: Observed, ids: Ids) -> Plan:
    """The next plan for an accepted job that is not being deleted."""
    status = next_status(seen)
    if seen.etcd_trouble or seen.view.unclear:
        return _without_etcd(seen, status)
    if seen.view.excess and not seen.view.empty:
        return _expelled(seen, status)
    if is_finished(status):
        final = end_in_etcd(seen, status, ids)
        return _after_the_end(seen, status) if final is None else Plan(actions=(final,), status=status)
    if waits(seen):
        stuck, forced = _stuck(seen)
        return Plan(actions=forced, status=status, requeue_in_s=stuck.next_in_s)
    actions = tuple(_acts(seen, status, ids))
    return Plan(actions=actions, status=status, requeue_in_s=_next_look_in_s(seen, status))


def _without_etcd(seen: Observed, status: JobStatus) -> Plan:
    """A half-known rendezvous is no ground for any act. A suspension, a deadline and an end are in the API server."""
    if is_finished(status):
        return _after_the_end(seen, status)
    if not seen.job.spec.suspend or seen.view.final:
        moments_s = (next_life_deadline_s(seen.job, status), unconfirmed_from_s(seen.job, status))
        return Plan(status=status, requeue_in_s=_soonest_s(*_until(seen.now_s, *moments_s)))
    stuck, forced = _stuck(seen)
    return Plan(actions=(*forced, *_deletion(seen.pods.values())), status=status, requeue_in_s=stuck.next_in_s)


def _deletion(pods: Iterable[Pod], spec_revision: int | None = None) -> tuple[DeletePods, ...]:
    """Delete those of the pods whose deletion was not asked for yet."""
    doomed = {pod.name: pod.uid for pod in pods if not pod.terminating}
    return (DeletePods(doomed, spec_revision),) if doomed else ()


def _expelled(seen: Observed, status: JobStatus) -> Plan:
    """Revoke the job's etcd user now; delete its pods and keys once the status with the reason has been written."""
    actions: list[Action] = [Disown()] if seen.settings.etcd_tls else []
    if is_finished(seen.status):
        actions += [*_deletion(seen.pods.values()), DeletePrefix()]
    return Plan(actions=tuple(actions), status=status, requeue_in_s=_SAID_WITHIN_S)


def _after_the_end(seen: Observed, status: JobStatus) -> Plan:
    """Nothing is created any more; what is left is cleaned up in its time."""
    expiry_s, cleaning_s = expires_at_s(seen.job, status), clean_at_s(seen.job, status)
    if expiry_s is not None and expiry_s <= seen.now_s:
        return Plan(actions=(DeleteJob(seen.job.metadata.uid),), status=status)
    actions = _deletion(pods_to_delete(seen.job, status, seen.pods.values(), seen.now_s))
    stuck, forced = _stuck(seen)
    again_s = _soonest_s(*_until(seen.now_s, expiry_s, cleaning_s), stuck.next_in_s)
    return Plan(actions=(*forced, *actions), status=status, requeue_in_s=again_s)


def _stuck(seen: Observed) -> tuple[Stuck, tuple[ForceDelete, ...]]:
    timeout_s, pods = seen.job.spec.stuck_pod_timeout_s, seen.pods.values()
    stuck = stuck_pods(timeout_s, pods, seen.ledger, now_s=seen.now_s, monotonic_s=seen.monotonic_s)
    only_proof = seen.job.spec.pod_replacement_policy == "Failed"
    return stuck, tuple(ForceDelete(pod.name, pod.uid, pod.node_name, only_proof) for pod in stuck.pods)


def _acts(seen: Observed, status: JobStatus, ids: Ids) -> Iterator[Action]:
    yield from first_certificate(seen)
    yield from _stuck(seen)[1]
    judged = evictions(seen.view, seen.pods, seen.ledger)
    yield from (Evict(eviction) for eviction in judged.evict)
    if (change := spec_change(seen, status, ids)) is not None:
        yield change
        return
    owners = seen.owners()
    unknown = {owner.name for owner in owners.values() if owner.standing is Standing.TO_LOOK}
    names = sorted(unknown.union(judged.look))
    yield from (LookPod(name, judged.look.get(name, frozenset())) for name in names)
    yield from _creations(seen, owners)
    yield from _deletions(seen, owners)
    yield from _expectations(seen, owners)
    if owners and _keeps_up(seen):  # last: whatever becomes of it, the pods are there
        yield from _budget(seen)
    yield from renewed_certificate(seen)


def _creations(seen: Observed, owners: dict[int, Owner]) -> Iterator[Action]:
    waiting_slots = seen.waiting_slots()
    to_create = {slot: owner.name for slot, owner in owners.items() if owner.standing is Standing.TO_CREATE}
    missing = {slot: name for slot, name in to_create.items() if slot not in waiting_slots}
    if missing or (owners and _keeps_up(seen)):
        yield from _applied(seen, Resource.SERVICE, render_service(seen.job))
    revision = seen.ledger.revision
    if revision is None:
        return  # a pod may be there that was not seen yet: what the others must be like is not known before
    if missing and not is_paused(seen.ledger.failed_creation, seen.monotonic_s):
        source = _pod_source(seen, revision)
        first = min(missing) if judges_template(seen, owners) else None
        creations = sorted(missing.items())
        yield from (CreatePod(name, slot, source, strict=slot == first) for slot, name in creations)


def _keeps_up(seen: Observed) -> bool:
    return keeps_up(seen.ledger, seen.pods, seen.monotonic_s)


def _pod_source(seen: Observed, revision: Revision) -> PodSource:
    spec, avoided = seen.view.spec, avoided_nodes(seen.ledger, seen.monotonic_s)
    brief = None if spec is None else brief_of(spec, seen.view.spec_revision)
    return PodSource(seen.job, seen.settings, revision, avoided, brief)


def _budget(seen: Observed) -> Iterator[Action]:
    if has_budget(seen.job):
        yield from _applied(seen, Resource.DISRUPTION_BUDGET, render_budget(seen.job))
    elif seen.ledger.applied.get(Resource.DISRUPTION_BUDGET) != NOTHING:
        yield Remove(Resource.DISRUPTION_BUDGET)


def _applied(seen: Observed, resource: Resource, body: Mapping[str, Any]) -> Iterator[Action]:
    if seen.ledger.applied.get(resource) != body:
        yield Apply(resource, body)


def _deletions(seen: Observed, owners: dict[int, Owner]) -> Iterator[Action]:
    """Pods that the map does not name, but for some that have failed (`retained_pods`).

    The spec is read again before they go, later than they were sighted.

    Without any map, of a job that is to run, only pods of another template: the others will be adopted. A restored map
    is older than the pods. So as long as a slot's own pod may be gone, no other pod of its slot is deleted.
    """
    named = {owner.name for owner in owners.values()}
    unclear = {slot for slot, owner in owners.items() if owner.standing in {Standing.TO_LOOK, Standing.GONE}}
    outdated = seen.outdated_pods
    unmapped = seen.view.spec is None and not seen.job.spec.suspend
    pods = (outdated if unmapped else seen.pods).values()
    unnamed = [pod for pod in pods if pod.name not in named and not pod.terminating]
    kept = {pod.name for pod in unnamed if pod.live and pod.slot in unclear and pod.name not in outdated}
    kept |= set() if seen.job.spec.suspend else retained_pods(unnamed, named=named)
    yield from _deletion((pod for pod in unnamed if pod.name not in kept), seen.view.spec_revision)


def _expectations(seen: Observed, owners: dict[int, Owner]) -> Iterator[Action]:
    joined = seen.joined()
    coming = {slot: owner for slot, owner in owners.items() if slot not in seen.waiting_slots()}
    refused = seen.ledger.failed_creation is not None
    wanted = expected_slots(coming, joined=joined, now_s=seen.now_s, refused=refused)
    if seen.view.spec is not None and must_rewrite(seen.view.expected, wanted, joined=joined):
        yield WriteExpected(wanted, seen.view.spec_revision)


def _next_look_in_s(seen: Observed, status: JobStatus) -> float | None:
    """Seconds until time alone would change the plan."""
    expected = [pod.created_s + EXPECTED_FOR_S for pod in seen.pods.values() if pod.live]
    deadline_s = next_deadline_s(seen.job, status, seen.view, seen.now_s)
    wall = _until(seen.now_s, deadline_s, renewal_s(seen), *expected)
    coming = [since_s + SHOWN_WITHIN_S for since_s in seen.ledger.coming_since_s.values()]
    lost_s = lost_pods(seen.job.spec, seen.ledger, seen.monotonic_s).next_at_s
    upkeep_s = None if _keeps_up(seen) else seen.ledger.upkeep_from_s
    failed = seen.ledger.failed_creation
    creation_s = None if failed is None else failed.again_at_s
    held_back = waiting(seen.ledger.courses, seen.monotonic_s).values()
    landed = [sent_s + LANDED_WITHIN_S for _, sent_s in seen.ledger.sent.values()] if seen.waiting_slots() else []
    monotonic = _until(seen.monotonic_s, lost_s, upkeep_s, creation_s, *coming, *held_back, *landed)
    return _soonest_s(*wall, *monotonic, _stuck(seen)[0].next_in_s)


def _until(now_s: float, *moments_s: float | None) -> list[float]:
    """Seconds to each moment that is still to come, by the clock of `now_s`."""
    return [moment_s - now_s for moment_s in moments_s if moment_s is not None and moment_s > now_s]


def _soonest_s(*delays_s: float | None) -> float | None:
    return min((delay_s for delay_s in delays_s if delay_s is not None), default=None)

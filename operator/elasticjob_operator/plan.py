"""PURE: what the operator does next for one job: (what is seen, fresh names) → actions, status, when to look again.

A plan is made from state alone, never from the event that woke it, and planning again from the outcome gives
nothing to do. It either writes the spec or acts on the map that is written: a pod is created or deleted only
from a map that came back through the watch.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from elasticjob_api.brief import brief_of
from elasticjob_api.status import JobStatus
from elasticjob_operator.actions import (
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
    WriteExpected,
)
from elasticjob_operator.changes import spec_change
from elasticjob_operator.cluster.protocol import Resource
from elasticjob_operator.ids import Ids
from elasticjob_operator.ledger import SHOWN_WITHIN_S
from elasticjob_operator.observed import Observed
from elasticjob_operator.policy.avoid import avoided_nodes
from elasticjob_operator.policy.certificates import first_certificate, renewal_s, renewed_certificate
from elasticjob_operator.policy.churn import waiting
from elasticjob_operator.policy.deadlines import next_deadline_s
from elasticjob_operator.policy.evict import evictions
from elasticjob_operator.policy.expected import EXPECTED_FOR_S, expected_slots, must_rewrite
from elasticjob_operator.policy.finish import clean_at_s, pods_to_delete
from elasticjob_operator.policy.lost import lost_pods
from elasticjob_operator.policy.standing import Owner, Standing
from elasticjob_operator.policy.status import is_finished, next_status
from elasticjob_operator.policy.stuck import Stuck, stuck_pods
from elasticjob_operator.policy.ttl import expires_at_s
from elasticjob_operator.policy.upkeep import keeps_up
from elasticjob_operator.render.budget import render_budget
from elasticjob_operator.render.pod import render_pod
from elasticjob_operator.render.service import render_service

_SAID_WITHIN_S = 1.0
"""What is said of a job has been written by then, if the API server answers."""


def plan(seen: Observed, ids: Ids) -> Plan:
    """The next plan for an accepted job that is not being deleted."""
    status = next_status(seen)
    if seen.etcd_trouble or seen.view.unclear:
        return Plan(status=status)  # a half-known rendezvous is no ground for any act
    if seen.view.excess and not seen.view.empty:
        return _expelled(seen, status)
    if is_finished(status):
        return _after_the_end(seen, status)
    actions = tuple(_acts(seen, status, ids))
    return Plan(actions=actions, status=status, requeue_at_s=_next_moment_s(seen, status))


def _expelled(seen: Observed, status: JobStatus) -> Plan:
    """Whoever has the job's certificate may write nothing from now on; all that there is goes when it was said why."""
    actions: list[Action] = [Disown()] if seen.settings.etcd_tls else []
    if is_finished(seen.status):
        doomed = {pod.name: pod.uid for pod in seen.pods.values() if not pod.terminating}
        actions += [DeletePods(doomed, None), DeletePrefix()]
    return Plan(actions=tuple(actions), status=status, requeue_at_s=seen.now_s + _SAID_WITHIN_S)


def _after_the_end(seen: Observed, status: JobStatus) -> Plan:
    """Nothing is created any more; what is left is cleaned up in its time."""
    expiry_s, cleaning_s = expires_at_s(seen.job, status), clean_at_s(seen.job, status)
    if expiry_s is not None and expiry_s <= seen.now_s:
        return Plan(actions=(DeleteJob(seen.job.metadata.uid),), status=status)
    doomed = pods_to_delete(seen.job, status, seen.pods.values(), seen.now_s)
    stuck, forced = _stuck(seen)
    actions = (DeletePods({pod.name: pod.uid for pod in doomed}, None),) if doomed else ()
    again_s = _earliest(seen.now_s, expiry_s, cleaning_s, stuck.next_at_s)
    return Plan(actions=(*forced, *actions), status=status, requeue_at_s=again_s)


def _stuck(seen: Observed) -> tuple[Stuck, tuple[ForceDelete, ...]]:
    stuck = stuck_pods(seen.job.spec.stuck_pod_timeout_s, seen.pods.values(), seen.ledger, seen.now_s)
    return stuck, tuple(ForceDelete(pod.name, pod.uid, pod.node_name) for pod in stuck.pods)


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
        yield from _applied(seen, Resource.DISRUPTION_BUDGET, render_budget(seen.job))
    yield from renewed_certificate(seen)


def _creations(seen: Observed, owners: dict[int, Owner]) -> Iterator[Action]:
    missing = {slot: owner.name for slot, owner in owners.items() if owner.standing is Standing.TO_CREATE}
    if missing or (owners and _keeps_up(seen)):
        yield from _applied(seen, Resource.SERVICE, render_service(seen.job))
    avoided = avoided_nodes(seen.ledger, seen.now_s)
    for slot, name in sorted(missing.items()):
        yield CreatePod(name, _rendered(seen, slot, name, avoided))


def _keeps_up(seen: Observed) -> bool:
    return keeps_up(seen.ledger, seen.pods, seen.now_s)


def _rendered(seen: Observed, slot: int, name: str, avoided: tuple[str, ...]) -> Mapping[str, Any]:
    spec = seen.view.spec
    brief = None if spec is None else brief_of(spec, seen.view.spec_revision)
    return render_pod(seen.job, slot=slot, name=name, settings=seen.settings, avoided=avoided, brief=brief)


def _applied(seen: Observed, resource: Resource, body: Mapping[str, Any]) -> Iterator[Action]:
    if seen.ledger.applied.get(resource) != body:
        yield Apply(resource, body)


def _deletions(seen: Observed, owners: dict[int, Owner]) -> Iterator[Action]:
    """Pods that the map does not name; the spec is read again before they go, later than they were sighted."""
    named = {owner.name for owner in owners.values()}
    doomed = {pod.name: pod.uid for pod in seen.pods.values() if pod.name not in named and not pod.terminating}
    if doomed:
        yield DeletePods(doomed, seen.view.spec_revision)


def _expectations(seen: Observed, owners: dict[int, Owner]) -> Iterator[Action]:
    joined = seen.joined()
    wanted = expected_slots(owners, joined=joined, now_s=seen.now_s)
    if seen.view.spec is not None and must_rewrite(seen.view.expected, wanted, joined=joined):
        yield WriteExpected(wanted, seen.view.spec_revision)


def _next_moment_s(seen: Observed, status: JobStatus) -> float | None:
    """When time alone would change the plan."""
    coming = [since_s + SHOWN_WITHIN_S for since_s in seen.ledger.coming_since_s.values()]
    expected = [pod.created_s + EXPECTED_FOR_S for pod in seen.pods.values() if pod.live]
    deadline_s = next_deadline_s(seen.job, status, seen.view, seen.now_s)
    lost_s = lost_pods(seen.job.spec, seen.ledger, seen.now_s).next_at_s
    upkeep_s = None if _keeps_up(seen) else seen.ledger.upkeep_from_s
    moments_s = (deadline_s, lost_s, upkeep_s, _stuck(seen)[0].next_at_s, renewal_s(seen))
    held_back = waiting(seen.ledger.courses, seen.now_s).values()
    return _earliest(seen.now_s, *moments_s, *coming, *expected, *held_back)


def _earliest(now_s: float, *moments_s: float | None) -> float | None:
    return min((moment_s for moment_s in moments_s if moment_s is not None and moment_s > now_s), default=None)

"""The growth of function calls in the pure parts with the number of nodes: equal on every machine and Python.

The value is the exponent: 1 is linear. A planner that searches a list for each member would have 2. It is computed from
the calls of 2,000 nodes less those of 1,000, and these less those of 500, so constant parts drop out.
"""

import cProfile
import gc
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from benchmarks.counts.record import Count
from elasticjob_agent.rendezvous.leader.observations import ObservationClock
from elasticjob_agent.rendezvous.protocol import ranks
from elasticjob_agent.rendezvous.protocol.leader_plan import plan
from elasticjob_agent.rendezvous.protocol.member_plan import MemberState, next_step
from elasticjob_agent.rendezvous.protocol.membership import Observations
from elasticjob_api import records, rendezvous_state
from elasticjob_api.job import ElasticJob
from elasticjob_api.keys import Keys
from elasticjob_api.records import NodeRecord, NodeSamples, SlotOwner, SpecRecord, WorkerReport, WorkerState
from elasticjob_api.rendezvous_state import Cause, Member, Membership, RendezvousState, RoundPhase
from elasticjob_api.rendezvous_view import parse_view
from elasticjob_api.status import JobStatus
from elasticjob_etcd.interface import KeyValue
from elasticjob_operator.controller.ids import random_ids
from elasticjob_operator.informers.rendezvous_store import JobStore
from elasticjob_operator.planner.derive import derive_snapshot
from elasticjob_operator.planner.plan import plan as operator_plan
from elasticjob_operator.policy.lifecycle.spec_record import spec_record
from testing import builders

_KEYS = Keys("/elasticjob/bench/default/job/uid")
NODES = (500, 1000, 2000)
MORE_NODES = (1000, 2000, 4000)
"""For the operator, whose status has some 600 nodes at most: the calls grow up to that number, and not beyond."""
_LOCAL = 8
"""Workers of a node."""


def take() -> list[Count]:
    """Return the counts of the leader's, a member's and the operator's work."""
    acts = {
        "a closer plans": closer_plans,
        "a closer looks at a round that runs": closer_looks,
        "a member takes its place": member_places,
    }
    operators = {"the operator plans a running job": operator_plans, "the operator views a job": operator_views}
    grown = {
        **{name: growth(act) for name, act in acts.items()},
        **{name: growth(act, MORE_NODES) for name, act in operators.items()},
    }
    return [Count(f"calls when {name}: exponent of nodes", value, slack=0.1) for name, value in grown.items()]


def growth(act: Callable[[int], Callable[[], Any]], sizes: tuple[int, int, int] = NODES) -> float:
    """Return the exponent; 0 for calls that do not grow."""
    few, some, many = (_calls(act(nodes)) for nodes in sizes)
    return math.log2((many - some) / (some - few)) if some > few and many > some else 0.0


def _calls(run: Callable[[], Any]) -> int:
    """Return the calls of the second run, when caches are filled; without garbage collection in the middle."""
    run()
    profile = cProfile.Profile()
    gc.collect()
    gc.disable()
    try:
        profile.runcall(run)
    finally:
        gc.enable()
    # Not pstats' key: it is file and line, which `__eq__` of every dataclass shares.
    return sum(entry.callcount for entry in profile.getstats())


def closer_plans(nodes: int) -> Callable[[], Any]:
    """A round closes: all records are parsed, the verdict is computed, the state is written."""
    items = _items(members_of(nodes), RoundPhase.FORMING)
    observed = Observations(now_s=100.0, forming_since_s=99.0, newest_key_s=90.0, enough_since_s=99.0)
    return lambda: plan(parse_view(_KEYS, items), observed, "0" * 8)


def closer_looks(nodes: int) -> Callable[[], Any]:
    """Nothing is to be done: no member is missing, new or lost."""
    items = _items(members_of(nodes), RoundPhase.ACTIVE)

    def run() -> Any:
        view = parse_view(_KEYS, items)
        return plan(view, ObservationClock().update(view, 100.0), "0" * 8)

    return run


def member_places(nodes: int) -> Callable[[], Any]:
    """A member reads the active state and finds its assignment; it is the last one, the worst case of any search."""
    members = members_of(nodes)
    data = rendezvous_state.encode_state(active(members))

    def run() -> Any:
        rendezvous_state.decode_state.cache_clear()
        now = rendezvous_state.decode_state(data)
        step = next_step(MemberState(me=members[-1], state=now))
        return ranks.assignment(now, step.group_rank)

    return run


def operator_plans(nodes: int) -> Callable[[], Any]:
    """One reconcile of a job with reports of all nodes; values cached for a reconcile are computed again."""
    size = range(nodes)
    job = builders.job(status=JobStatus(start_time=builders.ago(100)), replicas=nodes, nproc_per_node=_LOCAL)
    view, pods = _running(job, size), [builders.pod(slot) for slot in size]
    job_state = builders.seen(job, view, *pods).job_state

    def run() -> Any:
        observed = builders.observation(replace(view), *pods, job_state=job_state)
        return operator_plan(derive_snapshot(observed, job), random_ids())

    return run


def operator_views(nodes: int) -> Callable[[], Any]:
    """The view of a running job, parsed from its records."""
    running, keys = _running(builders.job(replicas=nodes), range(nodes)), Keys("/elasticjob/bench/ns/j/uid")
    values = {
        keys.spec: records.encode(running.spec),
        keys.rendezvous_state: rendezvous_state.encode_state(running.state),
        **{keys.node(m.slot, m.incarnation): records.encode(node.record) for m, node in running.nodes.items()},
        **{keys.report(m.slot, m.incarnation): records.encode(report) for m, report in running.reports.items()},
        **{keys.samples(m.slot, m.incarnation): records.encode(samples) for m, samples in running.samples.items()},
    }
    known = JobStore(keys)
    for key, value in values.items():
        known.put(KeyValue(key, value, 1, 1, 1))
    if unreadable := known.view(1).unreadable:
        raise AssertionError(f"these records should be as agents write them: {unreadable[:3]}")
    return lambda: known.view(1)


def _running(job: ElasticJob, size: range) -> Any:
    record = spec_record(job, builders.record(), builders.names(size), suspended=False)
    workers = tuple(WorkerReport(rank=rank, state=WorkerState.HEALTHY, pid=10 + rank) for rank in range(_LOCAL))
    used = NodeSamples(round=1, cpu_percent=(99.5,) * _LOCAL, memory_bytes=(1 << 36,) * _LOCAL, time_ns=1)
    reports = {builders.member(slot): replace(builders.report(slot), workers=workers) for slot in size}
    samples = {builders.member(slot): used for slot in size}
    return builders.running(*size, spec=record, reports=reports, samples=samples)


def members_of(count: int) -> tuple[Member, ...]:
    """Return so many members, slot by slot."""
    return tuple(Member(slot, f"{slot:08x}") for slot in range(count))


def active(members: tuple[Member, ...]) -> RendezvousState:
    """Return an active round of these members."""
    nprocs, roles = rendezvous_state.encode_layout((_LOCAL, "default") for _ in members)
    return RendezvousState(
        phase=RoundPhase.ACTIVE,
        round=1,
        nonce="1" * 8,
        members=members,
        nprocs=nprocs,
        roles=roles,
        master="10.0.0.1:29500",
    )


def _node(member: Member, ready: int = 1) -> NodeRecord:
    address = f"10.0.{member.slot >> 8}.{member.slot & 255}"
    return NodeRecord(
        pod=f"pod-{member.slot}", pod_uid="u", lease=member.slot, host="h", address=address, nproc=8, ready=ready
    )


def _items(members: tuple[Member, ...], phase: RoundPhase) -> dict[str, KeyValue]:
    owners = {member.slot: SlotOwner(pod=f"pod-{member.slot}") for member in members}
    count = len(members)
    spec = SpecRecord(min=count, max=count, desired=count, slots=owners, operator="benchmark")
    forming = RendezvousState(phase=RoundPhase.FORMING, round=2, nonce="2" * 8, cause=Cause.WORKER_FAILED)
    now = active(members) if phase is RoundPhase.ACTIVE else forming
    values = {
        _KEYS.spec: records.encode(spec),
        _KEYS.rendezvous_state: rendezvous_state.encode_state(now),
        _KEYS.members: rendezvous_state.encode_membership(Membership(1, members)),
        **{_KEYS.node(m.slot, m.incarnation): records.encode(_node(m, ready=2)) for m in members},
    }
    # The second version of each key: a round in the first one would be of an etcd that was wiped.
    return {key: KeyValue(key, value, 1, 2, 2) for key, value in values.items()}

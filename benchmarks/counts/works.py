"""Work whose instructions are counted: each function prepares its input, and returns a function that works once a call.

The preparation is not part of the work. Every call does all of it again, so that a second call can be counted when
caches are filled. `calls` measures how the work grows with the number of nodes.
"""

from collections.abc import Callable
from typing import Any

from benchmarks.counts.calls import active, closer_plans, member_places, members_of
from elasticjob_agent.rendezvous.protocol import ranks
from elasticjob_agent.rendezvous.protocol.restart_budget import RestartCounts
from elasticjob_agent.rendezvous.protocol.verdict import decide_verdict
from elasticjob_api import records, rendezvous_state
from elasticjob_api.keys import FailureKey
from elasticjob_api.records import (
    NodeRecord,
    NodeReport,
    NodeSamples,
    SpecRecord,
    WorkerFailure,
    WorkerReport,
    WorkerState,
)
from elasticjob_api.rendezvous_state import Member, Membership, RendezvousState
from elasticjob_api.rendezvous_view import FailureEntry, NodeEntry, RendezvousView
from elasticjob_api.status import JobStatus
from elasticjob_operator.controller.ids import random_ids
from elasticjob_operator.model.cluster_interface import Resource
from elasticjob_operator.model.job_state import JobState
from elasticjob_operator.model.pod_source import PodSource
from elasticjob_operator.model.revision import wanted_revision
from elasticjob_operator.planner.plan import plan
from elasticjob_operator.policy.lifecycle.spec_record import spec_record
from elasticjob_operator.render.disruption_budget import render_disruption_budget
from elasticjob_operator.render.pod import render_pod
from elasticjob_operator.render.service import render_service
from testing import builders

Work = Callable[[], Any]
FEW, MANY, LOCAL = 64, 256, 8
"""Nodes of a job, and workers of a node."""


def works() -> dict[str, Work]:
    """Return all works by name."""
    return {
        f"a closer plans a round of {FEW}": closer_plans(FEW),
        f"a closer plans a round of {MANY}": closer_plans(MANY),
        f"a member takes its place among {MANY}": member_places(MANY),
        f"ranks of {FEW} nodes": ranks_assigned(FEW),
        f"a failure of {FEW} workers is judged": failure_judged(FEW),
        f"a state of {MANY} members, there and back": state_copied(MANY),
        f"a report of {LOCAL} workers, there and back": report_copied(LOCAL),
        f"samples of {LOCAL} workers, there and back": samples_copied(LOCAL),
        f"the operator plans a job of {FEW}, nothing to do": operator_plans(FEW),
        "the operator renders a pod": pod_rendered(),
    }


def ranks_assigned(nodes: int) -> Work:
    """Return the assignment of every node of a round."""
    now = active(members_of(nodes))
    return lambda: [ranks.assignment(now, group_rank) for group_rank in range(nodes)]


def failure_judged(nodes: int) -> Work:
    """One worker of every node has failed: the first by itself, the others because their peer was lost."""
    alive = _alive(nodes)
    keys = {each: FailureKey(1, each.slot, 0) for each in alive}
    failures = {key: FailureEntry(key, _failure(each), nodes - each.slot) for each, key in keys.items()}
    view = RendezvousView(nodes=alive, membership=Membership(1, tuple(alive)), failures=failures)
    spec = SpecRecord(min=nodes, max=nodes, desired=nodes)
    return lambda: decide_verdict(view, spec, RestartCounts(round=2))


def _failure(member: Member) -> WorkerFailure:
    message = "loss is nan" if member.slot == 0 else "Connection closed by peer"
    return WorkerFailure(
        incarnation=member.incarnation, rank=member.slot, exit_code=1, message=f"RuntimeError: {message}"
    )


def state_copied(nodes: int) -> Work:
    """A state is encoded and decoded again."""
    now = active(members_of(nodes))

    def run() -> RendezvousState:
        rendezvous_state.decode_state.cache_clear()
        return rendezvous_state.decode_state(rendezvous_state.encode_state(now))

    return run


def report_copied(workers: int) -> Work:
    """A report is encoded and decoded again: after each change of a worker's state."""
    states = tuple(WorkerReport(rank=rank, state=WorkerState.HEALTHY, pid=100 + rank) for rank in range(workers))
    report = NodeReport(pod="job-0-abcde", pod_uid="uid", round=3, group_rank=0, workers=states)
    return lambda: records.decode(NodeReport, records.encode(report))


def samples_copied(workers: int) -> Work:
    """Samples are encoded and decoded again: in every report period."""
    samples = NodeSamples(round=3, cpu_percent=(99.5,) * workers, memory_bytes=(1 << 30,) * workers, time_ns=1)
    return lambda: records.decode(NodeSamples, records.encode(samples))


def operator_plans(nodes: int) -> Work:
    """A reconcile of a job that is as wanted: most reconciles are like this one."""
    size = range(nodes)
    job = builders.job(status=JobStatus(start_time=builders.ago(100)), replicas=nodes)
    record = spec_record(job, builders.record(), builders.names(size), suspended=False)
    pods = [builders.pod(slot) for slot in size]
    job_state = JobState()
    job_state.applied = {
        Resource.SERVICE: render_service(job),
        Resource.DISRUPTION_BUDGET: render_disruption_budget(job),
    }
    snapshot = builders.seen(job, builders.running(*size, spec=record), *pods, job_state=job_state)
    if acts := plan(snapshot, random_ids()).actions:
        raise AssertionError(f"nothing was to be done, and the plan is {acts}")
    return lambda: plan(snapshot, random_ids())


def pod_rendered() -> Work:
    """The manifest of a job's pod; the hash of the template is made once a reconcile, not once a pod."""
    job = builders.job(replicas=FEW)
    revision = wanted_revision(job, builders.SETTINGS)
    source = PodSource(job, builders.SETTINGS, revision)
    return lambda: render_pod(source, slot=3, name="j-3-a")


def _alive(nodes: int) -> dict[Member, NodeEntry]:
    node = NodeRecord(pod="p", pod_uid="u", lease=1, host="h", address="10.0.0.1", nproc=LOCAL)
    return {each: NodeEntry(each, node, 1) for each in members_of(nodes)}

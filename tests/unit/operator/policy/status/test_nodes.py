"""One entry per node: its pod, rank, state and letters, for a running and for an ended job."""

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from types import FrameType
from typing import Any

import pytest

from elasticjob_api import codec
from elasticjob_api.records import KeepReport, StartReport, Tombstone, TombstoneReason, WorkerFailure, WorkerState
from elasticjob_api.rendezvous_state import Cause, RendezvousState, RoundPhase
from elasticjob_api.rendezvous_view import RendezvousView
from elasticjob_api.status import JobStatus, NodeKeepStatus, NodeStatus, StartStatus
from elasticjob_operator.policy.status.nodes import node_statuses, within_limit
from elasticjob_operator.policy.status.worker_states import count_states as worker_count
from testing.builders import (
    active,
    failures,
    job,
    member,
    membership,
    node,
    pod,
    record,
    report,
    running,
    samples,
    seen,
    state,
    view,
)

H, S, F, I, T = (  # noqa: E741 -- the letters of the states
    WorkerState.HEALTHY,
    WorkerState.SUCCEEDED,
    WorkerState.FAILED,
    WorkerState.INIT,
    WorkerState.STOPPED,
)


TraceFunction = Callable[[FrameType, str, object], Any]


def entries(
    at: RendezvousView, *pods: Any, before: tuple[NodeStatus, ...] = (), nproc: int = 2
) -> tuple[NodeStatus, ...]:
    of = job(nproc_per_node=nproc, status=JobStatus(nodes=before))
    return node_statuses(seen(of, at, *pods))


def only(at: RendezvousView, *pods: Any, **fields: Any) -> NodeStatus:
    (entry,) = entries(at, *pods, **fields)
    return entry


def test_a_running_node_has_its_pod_its_node_its_rank_and_its_workers() -> None:
    entry = only(running(0, reports={member(0): report(0, H, H)}), pod(0))
    assert entry == NodeStatus(
        name="j-0", pod_name="j-0-a", node_name="node-0", rank=0, state="Running", ranks="RR", reason=""
    )  # fmt: skip


def test_a_node_has_cpu_and_memory_of_its_workers_once_one_was_sampled() -> None:
    entry = sampled((99.6, 1000), (50.0, 500))
    assert (entry.cpu_percent, entry.memory_bytes) == (150, 1500)
    assert only(running(0, reports={member(0): report(0, H)}), pod(0)).cpu_percent is None


def sampled(*found: tuple[float | None, int | None], workers: int = 0) -> NodeStatus:
    """Return the entry of a node whose workers use this much."""
    reported = report(0, *[H] * (workers or len(found)))
    of_node = samples(cpu_percent=tuple(cpu for cpu, _ in found), memory_bytes=tuple(memory for _, memory in found))
    return only(running(0, reports={member(0): reported}, samples={member(0): of_node}), pod(0))


def test_samples_of_more_workers_than_are_reported_are_left_out() -> None:
    assert sampled((1.0, 1), (2.0, 2), (4.0, 4), workers=2).rank_cpu_percent == (1, 2)


def test_cpu_and_memory_of_each_worker_are_listed_with_0_for_unknown() -> None:
    entry = sampled((99.6, 1000), (None, None), (None, 500))
    assert (entry.rank_cpu_percent, entry.rank_memory_bytes) == ((100, 0, 0), (1000, 0, 500))


def test_a_node_with_one_worker_or_without_samples_has_no_values_per_rank() -> None:
    assert sampled((99.6, 1000)).rank_cpu_percent == ()
    assert sampled((None, None), (None, None)).rank_memory_bytes == ()


@pytest.mark.parametrize("cpu", [-1e300, 1e300])
def test_implausible_samples_are_limited_to_the_range_of_the_field(cpu: float) -> None:
    entry = sampled((cpu, (1 << 63) - 1), (cpu, (1 << 63) - 1))
    assert set(entry.rank_cpu_percent) == {0 if cpu < 0 else (1 << 31) - 1}
    assert set(entry.rank_memory_bytes) == {(1 << 63) - 1}


def started(start: StartReport | None) -> StartStatus | None:
    """Return the entry's start for the report of a node with two workers."""
    return only(running(0, reports={member(0): replace(report(0, H, H), start=start)}), pod(0)).start


def test_a_node_has_the_start_of_its_workers_if_its_agent_reports_it() -> None:
    assert started(None) is None
    assert started(StartReport(warm=2, first_output_s=0.19)) == StartStatus(kind="Warm", first_output_milliseconds=190)
    assert started(StartReport(warm=1, cold_reason="why")) == StartStatus(kind="Cold", reason="why")


def test_a_start_of_a_hostile_agent_is_limited() -> None:
    report_ = StartReport(warm=-1, cold_reason="a\n[operator] b" + "x" * 8000, first_output_s=1e300)
    start = started(report_)
    assert start is not None
    assert (start.kind, start.first_output_milliseconds, len(start.reason)) == ("Cold", None, 128)
    assert start.reason.startswith("a [operator] b")


def test_a_start_remains_in_the_status_of_an_ended_job() -> None:
    before = NodeStatus(name="j-0", pod_name="j-0-a", start=StartStatus(kind="Warm"))
    at = view(state=state(RoundPhase.SUCCEEDED), membership=membership(0))
    assert only(at, before=(before,)).start == StartStatus(kind="Warm")
    last = replace(at, reports={member(0): report(0, S, start=StartReport(cold_reason="why"))})
    assert only(last, before=(before,)).start == StartStatus(kind="Cold", reason="why")


def test_a_node_has_what_its_keeper_holds_also_after_the_end() -> None:
    reported = {member(0): samples(keep=KeepReport(round=1, step=3, held_bytes=9))}
    kept = NodeKeepStatus(step=3, round=1, bytes=9)
    assert only(running(0, samples=reported), pod(0)).keep == kept
    ended = view(state=state(RoundPhase.SUCCEEDED), membership=membership(0))
    assert only(ended, before=(NodeStatus(name="j-0", pod_name="j-0-a", keep=kept),)).keep == kept
    assert only(replace(ended, samples=reported)).keep == kept


def test_nodes_are_listed_by_slot_with_their_rank_in_the_round() -> None:
    at = view(0, 1, 10, state=active(10, 1, 0))
    assert [(entry.name, entry.rank) for entry in entries(at)] == [("j-0", 2), ("j-1", 1), ("j-10", 0)]


@pytest.mark.parametrize(
    ("workers", "state"),
    [
        ((H, H), "Running"),
        ((H, S), "Running"),
        ((S, S), "Succeeded"),
        ((H, F), "Failed"),
        ((S, F), "Failed"),
        ((I, H), "Starting"),
        ((I, I), "Starting"),
    ],
)
def test_a_members_state_is_that_of_its_workers(workers: tuple[WorkerState, ...], state: str) -> None:
    assert only(running(0, reports={member(0): report(0, *workers)}), pod(0)).state == state


@pytest.mark.parametrize(
    ("at", "pods", "state", "ranks"),
    [
        (view(0, nodes={}), [], "Pending", "PP"),
        (view(0, nodes={}), [pod(0, phase="Pending")], "Pending", "PP"),
        (view(0, nodes={}), [pod(0)], "Joining", "PP"),
        (view(0, state=state()), [pod(0)], "Waiting", "PP"),
        (view(0, 1, state=active(1)), [pod(0)], "Waiting", "PP"),
        (running(0, nodes={member(0): node(0, leaving=True)}), [pod(0)], "Stopping", "UU"),
        (running(0, nodes={}), [pod(0)], "Lost", "UU"),
    ],
    ids=["no pod", "pod pending", "pod running", "joined", "not a member", "leaving", "its agent is gone"],
)
def test_the_state_of_a_node_without_reports_comes_from_pod_and_membership(
    at: RendezvousView, pods: list[Any], state: str, ranks: str
) -> None:
    first = entries(at, *pods)[0]
    assert (first.state, first.ranks) == (state, ranks)


def test_a_pod_that_does_not_start_has_its_reason() -> None:
    entry = only(view(0, nodes={}), pod(0, phase="Pending", reason="Unschedulable"))
    assert (entry.state, entry.reason) == ("Pending", "Unschedulable")


def test_a_session_with_a_tombstone_is_no_live_agent() -> None:
    at = running(0, tombstones={member(0): Tombstone(TombstoneReason.WEDGED)}, reports={member(0): report(0, H, H)})
    assert (only(at, pod(0)).state, only(at, pod(0)).rank) == ("Lost", None)


def test_an_agent_of_a_pod_that_does_not_own_the_slot_is_ignored() -> None:
    at = view(0, nodes={member(0): node(0, pod="j-0-other")}, reports={member(0): report(0, H)})
    assert only(at, pod(0)).ranks == "PP"


def test_the_newest_of_two_sessions_of_one_pod_counts() -> None:
    older, newer = member(0), member(0).__class__(0, "ffffffff")
    sessions = {newer: node(0, revision=9), older: node(0, revision=8)}
    at = view(0, nodes=sessions, reports={older: report(0, F), newer: report(0, H)})
    assert only(at, pod(0)).ranks == "R"


# After the end.

BEFORE = (
    NodeStatus(name="j-0", pod_name="j-0-a", node_name="node-0", rank=0, state="Running", ranks="RR"),
    NodeStatus(name="j-1", pod_name="j-1-a", node_name="node-1", rank=1, state="Running", ranks="RF"),
)
SUCCEEDED, FAILED = state(RoundPhase.SUCCEEDED), state(RoundPhase.FAILED, cause=Cause.MAX_RESTARTS)


def ended(of: RendezvousState, **fields: Any) -> tuple[tuple[str, str], ...]:
    at = view(spec=record(), state=of, membership=membership(0, 1), **fields)
    return tuple((entry.state, entry.ranks) for entry in entries(at, before=BEFORE))


def test_after_success_every_node_has_succeeded_although_the_reports_are_gone() -> None:
    assert ended(SUCCEEDED) == (("Succeeded", "CC"), ("Succeeded", "CC"))


def test_after_failure_the_failed_worker_differs_from_stopped_ones() -> None:
    assert ended(FAILED) == (("Stopped", "TT"), ("Failed", "TF"))


def test_an_existing_report_takes_precedence_over_the_previous_status() -> None:
    assert ended(FAILED, reports={member(0): report(0, F, T)})[0] == ("Failed", "FT")


def test_a_last_report_between_two_rounds_hides_no_rank() -> None:
    assert ended(SUCCEEDED, reports={member(0): report(0)})[0] == ("Succeeded", "CC")


def test_failure_records_of_the_last_round_outlive_the_reports() -> None:
    failure = WorkerFailure(incarnation=member(0).incarnation, rank=1, exit_code=1)
    assert ended(FAILED, failures=failures("1/0000.1", failure))[0] == ("Failed", "TF")


def test_failure_records_of_an_older_round_are_ignored() -> None:
    failure = WorkerFailure(incarnation="x", rank=0, exit_code=1)
    assert ended(FAILED, failures=failures("0/0000.0", failure))[0] == ("Stopped", "TT")


def test_a_job_that_ended_unobserved_has_the_members_of_its_last_round() -> None:
    at = view(0, state=SUCCEEDED, membership=membership(0))
    assert only(at).pod_name == "j-0-a"
    assert only(at).ranks == "CC"


def test_a_job_that_never_had_a_round_keeps_its_entries() -> None:
    at = view(spec=record(), state=FAILED)
    assert [entry.ranks for entry in entries(at, before=BEFORE)] == ["TT", "TF"]


# The limit.


def many(count: int, **fields: Any) -> tuple[NodeStatus, ...]:
    given = {"state": "Running", "ranks": "R" * 8, **fields}
    return tuple(NodeStatus(name=f"j-{n}", pod_name=f"j-{n}-a", rank=count - 1 - n, **given) for n in range(count))


def size(fitting: tuple[NodeStatus, ...]) -> int:
    return len(json.dumps([codec.write(entry) for entry in fitting]))


def test_a_list_within_the_limit_is_complete() -> None:
    assert within_limit(many(10)) == (many(10), False)


def test_a_list_of_thousands_is_truncated_to_the_limit() -> None:
    fitting, truncated = within_limit(many(5000))
    assert truncated
    assert 100 * 1024 < size(fitting) <= 128 * 1024


def test_values_per_rank_and_starts_are_left_out_of_a_long_list_first() -> None:
    start = StartStatus(kind="Cold", reason="FOO differs", first_output_milliseconds=5_100)
    uses = {
        "rank_cpu_percent": (100,) * 8,
        "rank_memory_bytes": (1 << 36,) * 8,
        "start": start,
        "keep": NodeKeepStatus(),
    }
    assert within_limit(many(300, **uses)) == (many(300, **uses), False), "2,400 ranks"
    assert within_limit(many(600, **uses)) == (many(600), False)
    assert within_limit(many(5000, **uses)) == within_limit(many(5000))


def test_entries_of_many_ranks_are_measured_however_few_they_are() -> None:
    uses = {"rank_cpu_percent": ((1 << 31) - 1,) * 1000, "rank_memory_bytes": ((1 << 63) - 1,) * 1000}
    fitting, truncated = within_limit(many(5, ranks="R" * 1000, **uses))
    assert size(fitting) <= 128 * 1024
    assert not truncated


def test_rank_0_and_nodes_that_do_not_run_are_kept_first_and_in_order() -> None:
    lost = NodeStatus(name="j-50", pod_name="j-50-a", state="Lost", ranks="U" * 8)
    all_nodes = (*many(50), lost)
    fitting, truncated = within_limit(all_nodes, limit=350)
    assert truncated
    assert {"j-49", "j-50"} <= {entry.name for entry in fitting}
    assert list(fitting) == [entry for entry in all_nodes if entry in fitting]


def lines_run(at: RendezvousView, nproc: int) -> int:
    """Return how many lines of code the entries cost; each element of a comprehension counts as one."""
    count = 0

    def trace(_frame: FrameType, event: str, _argument: object) -> TraceFunction:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        nodes = entries(at, nproc=nproc)
        worker_count(nodes)
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize(
    "at",
    [
        pytest.param(view(*range(50)), id="pending"),
        pytest.param(view(0, state=state(RoundPhase.FAILED), membership=membership(*range(50))), id="failed"),
        pytest.param(view(0, state=state(RoundPhase.SUCCEEDED), membership=membership(*range(50))), id="succeeded"),
    ],
)
def test_nodes_without_reports_cost_the_same_for_any_number_of_workers(at: RendezvousView) -> None:
    """A job may declare 1,024 workers on each of 65,535 nodes: a loop over the workers took half a minute."""
    lines_run(at, 1)  # fills the caches
    assert lines_run(at, 1000) < lines_run(at, 1) + 2500

"""States for tests of the page: a large one, and one with hostile texts in every field."""

from dataclasses import replace
from typing import Any

from elasticjob_api.constants import Phase
from elasticjob_api.records import NodeReport, NodeSamples, Progress, WorkerFailure, WorkerReport, WorkerState
from elasticjob_api.rendezvous_state import Cause, Member, RendezvousState, RoundPhase
from elasticjob_api.rendezvous_view import RendezvousView
from elasticjob_api.status import Condition, JobStatus, LastFailure, NodeStatus, ProgressStatus, WorkerStates
from elasticjob_operator.model.job_key import JobKey
from elasticjob_operator.model.recovery import RecoverySample
from elasticjob_operator.model.timestamps import to_rfc3339
from elasticjob_operator.policy.status.rounds import update_rounds
from elasticjob_operator.ui import PageState
from testing.builders import NOW_S, failures

HOSTILE = '<img src=x onerror="window.hurt=1"><script>window.hurt=1</script>\'"`javascript:window.hurt=1'
PHASES = (Phase.RUNNING, Phase.RUNNING, Phase.RUNNING, Phase.RESTARTING, Phase.PENDING, Phase.SUCCEEDED, Phase.FAILED)
PER_NODE = 8


def key(name: str = "job", uid: str = "u") -> JobKey:
    return JobKey("team", name, uid)


def obj(now_s: float = NOW_S) -> dict[str, Any]:
    return {"metadata": {"creationTimestamp": to_rfc3339(now_s - 3600)}}


def state(round_: int = 1, phase: RoundPhase = RoundPhase.ACTIVE, nodes: int = 2, **fields: Any) -> RendezvousState:
    members = tuple(Member(slot, f"{slot:08x}") for slot in range(nodes)) if phase is RoundPhase.ACTIVE else ()
    return RendezvousState(
        phase=phase, round=round_, nonce="n", members=members, nprocs=f"{PER_NODE}x{nodes}", **fields
    )


def report(slot: int, *, state: WorkerState = WorkerState.HEALTHY, pod: str = "", **fields: Any) -> NodeReport:
    workers = tuple(
        WorkerReport(rank=slot * PER_NODE + i, state=state, pid=4000 + slot * PER_NODE + i) for i in range(PER_NODE)
    )
    return NodeReport(
        pod=pod or f"job-{slot}-abcde", pod_uid=f"u{slot}", round=1, group_rank=slot, workers=workers, **fields
    )


def samples(slot: int, progress: Progress | None = None, *, round_: int = 1) -> NodeSamples:
    return NodeSamples(
        round=round_,
        cpu_percent=tuple(20.0 + (slot * 7 + i * 3) % 80 for i in range(PER_NODE)),
        memory_bytes=tuple((1 + (slot + i) % 7) << 30 for i in range(PER_NODE)),
        progress=progress,
    )


def observed(board: PageState, of: JobKey, status: JobStatus, view: RendezvousView, now_s: float) -> JobStatus:
    """Reconcile once; return the status, with the rounds that the view adds."""
    after = replace(status, rounds=update_rounds(status.rounds, view, now_s))
    board.reconciled(of, obj(now_s), after, view, now_s)
    return after


def small(board: PageState, count: int, *, now_s: float = NOW_S) -> None:
    """Add that many jobs of every phase, some with progress."""
    for i in range(count):
        phase = PHASES[i % len(PHASES)]
        running = 16 if phase is Phase.RUNNING else 0
        status = JobStatus(
            phase=phase,
            reason="" if phase is not Phase.FAILED else "MaxRestartsExceeded",
            ready_replicas=running // PER_NODE,
            desired_replicas=2,
            world_size=running,
            rendezvous_round=1 + i % 5,
            restarts=i % 3,
            worker_states=WorkerStates(running=running, pending=16 - running),
            progress=ProgressStatus(step=i * 7 % 100, total=100),
        )
        board.reconciled(
            key(f"train-{i:03d}"), obj(now_s - 60 * i), status, RendezvousView(state=state(1 + i % 5)), now_s
        )


def large(board: PageState, *, name: str = "large", ranks: int = 1000, now_s: float = NOW_S) -> None:
    """Add one job with that many ranks, in its fourth round, after a failure."""
    nodes = ranks // PER_NODE
    failure = WorkerFailure(
        incarnation="a",
        rank=37,
        exit_code=-11,
        signal="SIGSEGV",
        message="rank 37 was killed by SIGSEGV",
        pod="job-4-abcde",
        host="node-4",
        time_ns=int((now_s - 100) * 1e9),
        stderr="step 4211 loss 0.0312\n" * 12 + "Fatal Python error: Segmentation fault\n",
    )
    statuses = tuple(
        NodeStatus(
            name=f"{name}-{i}",
            pod_name=f"job-{i}-abcde",
            node_name=f"node-{i}",
            rank=i,
            state="Running",
            ranks="R" * PER_NODE,
        )
        for i in range(nodes)
    )
    status = JobStatus(
        phase=Phase.RUNNING,
        ready_replicas=nodes,
        desired_replicas=nodes,
        world_size=ranks,
        rendezvous_round=4,
        restarts=1,
        node_losses=1,
        worker_states=WorkerStates(running=ranks - PER_NODE, failed=PER_NODE),
        nodes=statuses,
        last_failure=LastFailure(
            time=to_rfc3339(now_s - 100),
            round=2,
            pod_name="job-4-abcde",
            node_name="node-4",
            rank=37,
            local_rank=5,
            exit_code=139,
            signal="SIGSEGV",
            reason="Signaled",
            message="rank 37 was killed by SIGSEGV",
        ),
        conditions=(Condition(type="Running", status="True", reason="AllWorkersRun", message="all workers run"),),
    )
    reports = {Member(i, f"{i:08x}"): report(i) for i in range(nodes)}
    sampled = {member: samples(member.slot, Progress(4300, 9000, {"loss": "0.0298"}), round_=4) for member in reports}
    reports[Member(3, f"{3:08x}")] = report(3, state=WorkerState.FAILED)
    of = key(name)
    last = state(4, nodes=nodes, cause=Cause.NODE_JOINED, message="job-7 joined", root_cause="2/0004.5")
    history: list[tuple[float, RendezvousState]] = [
        (900, state(1, RoundPhase.FORMING)),
        (890, state(1, nodes=nodes)),
        (420, state(2, RoundPhase.FORMING, cause=Cause.NODE_LOST, message="job-7 was lost")),
        (418, state(2, nodes=nodes - 1, cause=Cause.NODE_LOST, message="job-7 was lost")),
        (100, state(3, RoundPhase.FORMING, cause=Cause.WORKER_FAILED, message="rank 37 was killed by SIGSEGV")),
        (99.6, state(3, nodes=nodes - 1, cause=Cause.WORKER_FAILED, message="rank 37 was killed by SIGSEGV")),
        (60, state(4, RoundPhase.FORMING, cause=Cause.NODE_JOINED, message="job-7 joined")),
        (59, last),
    ]
    for ago_s, at in history:
        status = observed(board, of, status, RendezvousView(state=at), now_s - ago_s)
    board.recovered(
        of, RecoverySample(3, Cause.WORKER_FAILED, {"detect": 0.01, "stop": 0.3, "agree": 0.02, "start": 0.08})
    )
    board.reconciled(
        of,
        obj(now_s),
        status,
        RendezvousView(state=last, reports=reports, samples=sampled, failures=failures("2/0004.5", failure)),
        now_s - 59,
    )


def hostile(board: PageState, *, now_s: float = NOW_S) -> None:
    """Add a job with `HOSTILE` in every text that a job can set."""
    bad = HOSTILE
    failure = WorkerFailure(
        incarnation=bad, rank=0, exit_code=1, signal=bad, message=bad, pod=bad, host=bad, stderr=bad
    )
    status = JobStatus(
        phase=Phase.FAILED,
        reason=bad,
        message=bad,
        ready_replicas=1,
        desired_replicas=1,
        rendezvous_round=2,
        nodes=(NodeStatus(name=bad, pod_name=bad, node_name=bad, rank=0, state=bad, ranks='R<"', reason=bad),),
        last_failure=LastFailure(
            time=bad,
            round=1,
            pod_name=bad,
            node_name=bad,
            rank=0,
            local_rank=0,
            exit_code=1,
            signal=bad,
            reason=bad,
            message=bad,
        ),
        conditions=(Condition(type=bad, status="True", reason=bad, message=bad),),
        progress=ProgressStatus(step=1, total=2, metrics={bad: bad}),
    )
    at = state(2, cause=Cause.WORKER_FAILED, message=bad, root_cause="1/0000.0")
    reports = {Member(0, "0" * 8): report(0, pod=bad)}
    sampled = {Member(0, "0" * 8): samples(0, Progress(1, 2, {bad: bad}))}
    board.reconciled(
        key("hostile"),
        obj(now_s),
        status,
        RendezvousView(state=at, reports=reports, samples=sampled, failures=failures("1/0000.0", failure)),
        now_s,
    )

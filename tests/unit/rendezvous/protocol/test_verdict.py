"""What the end of a round counts as."""

import random
from typing import Any

import pytest

from elasticjob_agent.rendezvous.protocol import verdict
from elasticjob_agent.rendezvous.protocol.restart_budget import RestartCounts
from elasticjob_agent.rendezvous.protocol.verdict import Verdict
from elasticjob_api.records import FailureRule, TombstoneReason
from elasticjob_api.rendezvous_state import Cause
from tests.unit.rendezvous.views import ViewBuilder, member, view_builder


def a_round(**spec: Any) -> ViewBuilder:
    """Round 1 had slots 0, 1, 2; all have stopped and are ready for round 2."""
    return view_builder(**spec).nodes(0, 1, 2, ready=2).members(1, 0, 1, 2).forming(2)


def judge(job: ViewBuilder, restarts: int = 0) -> Verdict:
    view = job.build()
    assert view.spec is not None
    return verdict.decide_verdict(view, view.spec, RestartCounts(restarts=restarts))


@pytest.mark.parametrize(
    ("job", "restarts", "losses"),
    [
        pytest.param(a_round().failure(1, 0), 1, 0, id="a failure with everybody there is charged"),
        pytest.param(a_round().failure(1, 0).failure(1, 1).failure(1, 2), 1, 0, id="several failures are one restart"),
        pytest.param(a_round(), 0, 0, id="a planned round charges nothing"),
        pytest.param(a_round().failure(1, 0).lost(1), 0, 1, id="the victim of a lost node is not charged"),
        pytest.param(a_round().lost(1), 0, 1, id="a lost node counts as a loss"),
        pytest.param(a_round().lost(1).lost(2), 0, 1, id="losses are counted by rounds"),
        pytest.param(
            a_round().lost(1).tombstone(1, TombstoneReason.LEFT), 0, 0, id="a node that left counts as nothing"
        ),
        pytest.param(
            a_round().lost(1).tombstone(1, TombstoneReason.LEFT).failure(1, 0),
            0,
            0,
            id="a leaver's peer is not charged",
        ),
        pytest.param(a_round().node(1, ready=2, leaving=True).failure(1, 0), 0, 0, id="nor while it is leaving"),
        pytest.param(
            a_round().lost(1).tombstone(1, TombstoneReason.LEFT).lost(2), 0, 1, id="lost beside one that left is a loss"
        ),
        pytest.param(
            a_round().tombstone(1, TombstoneReason.REFUSED).failure(1, 0), 0, 1, id="proof of a loss counts like it"
        ),
        pytest.param(a_round().failure(1, 0, late=True), 0, 0, id="a late failure is never charged"),
        pytest.param(a_round().failure(1, 0, stopped_by_agent=True), 0, 0, id="nor one that we caused"),
        pytest.param(
            a_round().completion(1, 1).lost(1).failure(1, 0), 1, 0, id="a finished member that is gone is not lost"
        ),
        pytest.param(
            a_round().completion(1, 1).node(1, leaving=True).failure(1, 0),
            1,
            0,
            id="a finished member may leave unnoticed",
        ),
        pytest.param(a_round().failure(7, 0), 0, 0, id="failures of other rounds do not count"),
        pytest.param(a_round().lost(1).node(1, incarnation="f" * 8), 0, 1, id="a new stay in the same slot is a loss"),
    ],
)
def test_the_end_of_a_round_counts_as(job: ViewBuilder, restarts: int, losses: int) -> None:
    said = judge(job)
    assert (said.restarts, said.node_losses, said.failed) == (restarts, losses, None)


@pytest.mark.parametrize(
    "job", [a_round().lost(1), a_round().lost(1).tombstone(1, TombstoneReason.LEFT)], ids=["lost", "left"]
)
def test_a_peer_that_fails_because_a_node_went_is_not_the_root_cause(job: ViewBuilder) -> None:
    said = judge(job.failure(1, 0, exit_code=1).failure(1, 2, exit_code=-6, signal="SIGABRT"))
    assert said.root_cause is None


def test_nothing_is_judged_before_the_first_round() -> None:
    assert judge(view_builder().nodes(0, 1).forming(1)) == Verdict()


def test_one_failure_more_than_max_restarts_fails_the_job_and_says_why() -> None:
    job = a_round(max_restarts=2).failure(1, 1, exit_code=-9, signal="SIGKILL")
    assert judge(job, restarts=1).failed is None
    said = judge(job, restarts=2)
    assert (said.failed, said.restarts) == (Cause.MAX_RESTARTS, 0)
    assert said.message == "rank 1 on pod-1 was killed by SIGKILL; maxRestarts 2 is used up"


@pytest.mark.parametrize(
    ("rule", "failed", "restarts"),
    [
        pytest.param(FailureRule("FailJob", (1, 42)), Cause.FAIL_JOB_RULE, 0, id="FailJob on this code"),
        pytest.param(FailureRule("FailJob", (42,)), None, 1, id="FailJob on another code"),
        pytest.param(FailureRule("FailJob", (42,), negate=True), Cause.FAIL_JOB_RULE, 0, id="FailJob on all but one"),
        pytest.param(FailureRule("FailJob", (1,), negate=True), None, 1, id="FailJob on all but this"),
        pytest.param(FailureRule("Ignore", (1,)), None, 0, id="Ignore restarts for nothing"),
        pytest.param(FailureRule("RestartWorkers", (1,)), None, 1, id="RestartWorkers charges"),
        pytest.param(FailureRule("Ignore"), None, 0, id="a rule without codes matches every one"),
    ],
)
def test_failure_rule_by_exit_code(rule: FailureRule, failed: Cause | None, restarts: int) -> None:
    said = judge(a_round(failure_rules=(rule,)).failure(1, 0))
    assert (said.failed, said.restarts) == (failed, restarts)


def test_the_first_matching_rule_wins() -> None:
    rules = (FailureRule("Ignore", (1,)), FailureRule("FailJob"))
    assert judge(a_round(failure_rules=rules).failure(1, 0)).failed is None
    assert judge(a_round(failure_rules=rules).failure(1, 0, exit_code=2)).failed is Cause.FAIL_JOB_RULE


def test_a_signal_is_matched_as_128_plus_its_number() -> None:
    rules = (FailureRule("FailJob", (128 + 11,)),)
    assert judge(a_round(failure_rules=rules).failure(1, 0, exit_code=-11)).failed is Cause.FAIL_JOB_RULE


@pytest.mark.parametrize(
    ("job", "root"),
    [
        pytest.param(a_round().failure(1, 1).failure(1, 0), "1/0001.0", id="the earliest in etcd's order"),
        pytest.param(a_round().failure(1, 1).failure(1, 0, exit_code=-11), "1/0000.0", id="a signal beats an exit"),
        pytest.param(a_round().failure(1, 1).failure(1, 0, oom=True), "1/0000.0", id="out of memory beats an exit"),
        pytest.param(
            a_round().failure(1, 1).failure(1, 0, exit_code=-11, late=True), "1/0000.0", id="also when it is late"
        ),
        pytest.param(
            a_round().failure(1, 1, exit_code=-15, stopped_by_agent=True).failure(1, 0),
            "1/0000.0",
            id="never one of ours",
        ),
        pytest.param(
            a_round().failure(1, 2, 1, exit_code=-6).failure(1, 2, 0, exit_code=-9), "1/0002.1", id="the earlier signal"
        ),
    ],
)
def test_root_cause(job: ViewBuilder, root: str) -> None:
    said = judge(job)
    assert said.root_cause is not None
    assert said.root_cause.name == root


@pytest.mark.parametrize(
    ("late", "root"),
    [
        pytest.param({"message": "lost the connection to rank 0"}, None, id="it lost its peers"),
        pytest.param({"message": "No space left on device"}, "1/0001.0", id="its own fault"),
        pytest.param({"exit_code": -11}, "1/0001.0", id="a crash"),
    ],
)
def test_a_failure_while_the_round_ends_for_another_reason_is_named_unless(late: Any, root: str | None) -> None:
    said = judge(a_round().failure(1, 1, late=True, **late))
    assert (said.root_cause.name if said.root_cause else None) == root


def test_a_failure_record_that_is_put_again_keeps_its_place_in_the_order() -> None:
    job = a_round().failure(1, 1).failure(1, 0).failure(1, 1, late=True)
    root = judge(job).root_cause
    assert root is not None
    assert root.name == "1/0001.0"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        pytest.param({}, "rank 1 on pod-1 exited with code 1", id="an exit"),
        pytest.param({"pod": ""}, "rank 1 exited with code 1", id="without a pod"),
        pytest.param(
            {"exit_code": -9, "signal": "SIGKILL", "oom": True},
            "rank 1 on pod-1 was killed by SIGKILL (out of memory)",
            id="out of memory",
        ),
        pytest.param(
            {"message": "Traceback\n  ...\nValueError: boom\n"},
            "rank 1 on pod-1 exited with code 1: ValueError: boom",
            id="its last line",
        ),
    ],
)
def test_failure_in_words(fields: dict[str, Any], words: str) -> None:
    (failure,) = view_builder().failure(1, 1, **fields).build().failures
    assert verdict.describe(failure) == words


def test_left_and_lost_exclude_each_other() -> None:
    view = a_round().lost(0).tombstone(0, TombstoneReason.LEFT).lost(1).build()
    told = {slot: (verdict.has_left(view, member(slot)), verdict.is_lost(view, member(slot))) for slot in range(3)}
    assert told == {0: (True, False), 1: (False, True), 2: (False, False)}


def port_taken(retries: int = 0) -> Verdict:
    job = a_round(max_restarts=0).failure(1, 0, port_taken=True, message="OSError: [Errno 98] Address already in use")
    view = job.failure(1, 1, message="ConnectionRefusedError").build()
    assert view.spec is not None
    return verdict.decide_verdict(view, view.spec, RestartCounts(port_retries=retries))


def test_a_taken_master_port_is_not_charged_and_says_so() -> None:
    said = port_taken()
    assert (said.restarts, said.failed, said.port_retries) == (0, None, 1)
    assert said.message.endswith("Address already in use; not charged: the next attempt takes another port")


def test_a_port_that_is_taken_again_and_again_is_charged_like_any_failure() -> None:
    assert port_taken(verdict.PORT_RETRIES - 1).failed is None
    assert port_taken(verdict.PORT_RETRIES).failed is Cause.MAX_RESTARTS


def test_a_round_that_ends_otherwise_forgives_the_ports() -> None:
    view = a_round().failure(1, 0).build()
    assert view.spec is not None
    assert verdict.decide_verdict(view, view.spec, RestartCounts(port_retries=3)).port_retries == 0


PEER = "ConnectionResetError: [Errno 104] Connection reset by peer"


@pytest.mark.parametrize(
    ("job", "root"),
    [
        pytest.param(
            a_round().failure(1, 0, message=PEER).failure(1, 1, message="ValueError: x"),
            1,
            id="own words beat a peer's",
        ),
        pytest.param(a_round().failure(1, 0, message=PEER).failure(1, 1), 1, id="and so does one that says nothing"),
        pytest.param(
            a_round().failure(1, 0, message=PEER).failure(1, 1, exit_code=-11, stopped_by_agent=True, late=True),
            1,
            id="a crash that our signal found on its way",
        ),
        pytest.param(
            a_round().failure(1, 0, message="ValueError: x").failure(1, 1, exit_code=-11, stopped_by_agent=True),
            0,
            id="but a crash after our signal proves nothing against who had failed by itself",
        ),
        pytest.param(
            a_round().failure(1, 0, message=PEER).failure(1, 1, exit_code=-15, message="boom", stopped_by_agent=True),
            1,
            id="an error that was told before our signal",
        ),
        pytest.param(
            a_round()
            .failure(1, 0, exit_code=-6, stderr=f"what(): {PEER}", message="core dumped")
            .failure(1, 1, message="ValueError: x"),
            1,
            id="who aborts because of a peer is a victim too",
        ),
        pytest.param(
            a_round().failure(1, 0, message="ValueError: x").failure(1, 1, port_taken=True, message="EADDRINUSE"),
            1,
            id="a taken port explains all others",
        ),
        pytest.param(a_round().failure(1, 2, message=PEER).failure(1, 0, message=PEER), 2, id="all victims: the first"),
    ],
)
def test_root_cause_among_victims(job: ViewBuilder, root: int) -> None:
    said = judge(job).root_cause
    assert said is not None
    assert said.slot == root


def test_a_crash_after_our_signal_is_never_charged() -> None:
    assert judge(a_round().failure(1, 0, exit_code=-11, stopped_by_agent=True)).restarts == 0


VICTIMS = (
    "ConnectionResetError: [Errno 104] Connection reset by peer",
    "BrokenPipeError: [Errno 32] Broken pipe",
    "EOFError",
    "grpc: Socket closed",
    "RuntimeError: lost the connection to rank 3",
    "TimeoutError: [Errno 110] Connection timed out",
    # gloo
    "RuntimeError: [pair.cc:534] Connection closed by peer [127.0.0.1]:36413",
    "[rank1]: RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:553] Read error [10.0.0.1]:3: Host is down",
    "RuntimeError: Application timeout caused pair closure",
    "RuntimeError: Timed out waiting 1800000ms for recv operation to complete",
    "RuntimeError: Rank 0 timed out in monitoredBarrier after 30000 ms.",
    # the store
    "DistNetworkError: failed to recv, got 0 bytes. Connection was likely closed. Did the server crash?",
    "torch.distributed.DistNetworkError: Remote peer closed the connection.",
    "torch.distributed.DistStoreError: Socket Timeout",
    "torch.distributed.DistStoreError: wait timeout after 300000ms, keys: /default_pg/0//cuda//0",
    "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 1/2 clients joined.",
    "DistNetworkError: The client socket has timed out after 600000ms while trying to connect to (10.0.0.1, 29500).",
    "DistNetworkError: The client socket has failed to connect to any network address of (10.0.0.1, 29500).",
    # NCCL
    "DistBackendError: NCCL error, ncclRemoteError: A call failed possibly due to a network error",
    "DistBackendError: NCCL error in: NCCLUtils.hpp:268, remote process exited or there was a network error, NCCL",
    "socketProgress: Connection closed by remote peer node-1<41234>",
    "DistBackendError: NCCL communicator was aborted on rank 1.",
    "RuntimeError: [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE) ran",
    "[PG ID 0 PG GUID 0(default_pg) Rank 1] Received a dump signal due to a collective timeout from this local rank",
    # JAX
    "JAX distributed service detected fatal errors. This most likely indicates that another task died; see the other",
)
OWN = (
    "OSError: [Errno 28] No space left on device",
    "[rank3]: OSError: [Errno 28] No space left on device: '/ckpt/step-1000.pt'",
    "RuntimeError: [enforce fail at inline_container.cc:664] . unexpected pos 704 vs 598",
    "Error while creating shared memory segment /dev/shm/nccl-1Z (size 9637888), error: No space left on device (28)",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
    "RuntimeError: CUDA error: an illegal memory access was encountered",
    "RuntimeError: DataLoader worker (pid 71) is killed by signal: Killed.",
    "RuntimeError: [enforce fail at gloo/transport/tcp/device.cc:91] rp != nullptr. Unable to resolve address for: n",
    "ValueError: loss is nan",
    "ValueError: socket timeout must be positive",
    "EOFError: Ran out of input",
    "EOFError: Compressed file ended before the end-of-stream marker was reached",
    "ModuleNotFoundError: No module named 'peer'",
    "KeyError: 'connection'",
    "",
)


@pytest.mark.parametrize("said", VICTIMS)
def test_who_says_so_is_a_victim_though_it_was_first(said: str) -> None:
    root = judge(
        a_round().failure(1, 0, message=said).failure(1, 1, message="OSError: [Errno 28] No space left")
    ).root_cause
    assert root is not None
    assert root.slot == 1


@pytest.mark.parametrize("said", OWN)
def test_who_says_so_is_the_cause_though_all_others_were_first(said: str) -> None:
    job = a_round().failure(1, 0, message=PEER).failure(1, 2, message=VICTIMS[-4]).failure(1, 1, message=said)
    root = judge(job).root_cause
    assert root is not None
    assert root.slot == 1


def test_a_full_disk_is_the_cause_in_every_order_of_the_ends() -> None:
    dice = random.Random(28)
    for _ in range(100):
        job = a_round()
        for slot in dice.sample(range(3), 3):
            job = job.failure(1, slot, message=OWN[0] if slot == 1 else dice.choice(VICTIMS))
        root = judge(job).root_cause
        assert root is not None
        assert (root.slot, root.failure.message) == (1, OWN[0])


def test_what_a_library_aborts_of_stands_before_its_stack() -> None:
    frames = "".join(
        f"frame #{n}: c10d::ProcessGroupNCCL::watchdogHandler() + 0x{n:x} (libtorch_cuda.so)\n" for n in range(20)
    )
    stderr = (
        f"terminate called after throwing\n  what():  [Rank 0] Watchdog caught collective operation timeout\n{frames}"
    )
    abort: dict[str, Any] = {"exit_code": -6, "signal": "SIGABRT", "stderr": stderr}
    root = judge(a_round().failure(1, 0, **abort).failure(1, 1, message=OWN[0])).root_cause
    assert root is not None
    assert root.slot == 1


def windowed(charges: str, seen_s: float, *, window_s: float = 60) -> Verdict:
    view = a_round(max_restarts=1, restart_window_s=window_s).failure(1, 0).build()
    assert view.spec is not None
    return verdict.decide_verdict(
        view, view.spec, RestartCounts(round=2, restarts=9, charged_failures=charges, charged_ages_s=seen_s)
    )


def test_a_failure_within_the_window_of_another_spends_the_budget() -> None:
    said = windowed("1:0.0", 59)
    assert said.failed is Cause.MAX_RESTARTS
    assert said.message == "rank 0 on pod-0 exited with code 1; maxRestarts 1 is used up within 60 s"


def test_a_failure_after_the_window_is_the_first_again() -> None:
    said = windowed("1:0.0", 60)
    assert (said.failed, said.restarts, said.charged_failures) == (None, 1, "2:0.0")


@pytest.mark.parametrize("job", [a_round().lost(1), a_round(), a_round().failure(1, 0, late=True)])
def test_what_is_not_charged_leaves_the_charges_as_they_are(job: ViewBuilder) -> None:
    view = job.spec(restart_window_s=60).build()
    assert view.spec is not None
    assert verdict.decide_verdict(view, view.spec, RestartCounts(charged_failures="1:0.0")).charged_failures == "1:0.0"

"""The root cause of the failures of a round."""

import random
from typing import Any

import pytest

from elasticjob_agent.rendezvous.protocol.root_cause import FailureKind, failure_kind, root_cause
from elasticjob_api.rendezvous_view import FailureEntry
from tests.unit.rendezvous.views import ViewBuilder, view_builder


def a_round() -> ViewBuilder:
    """Return a job without a failure."""
    return view_builder()


def cause_of(job: ViewBuilder) -> FailureEntry:
    """Return the root cause of round 1."""
    found = root_cause(job.build().failures_of(1))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"exit_code": -9}, FailureKind.KILLED),
        ({"oom": True}, FailureKind.KILLED),
        ({"port_taken": True}, FailureKind.KILLED),
        ({"message": "ValueError: x"}, FailureKind.EXITED),
        ({"exit_code": -11, "stopped_by_agent": True}, FailureKind.SIGNALLED),
        ({"message": "Connection reset by peer"}, FailureKind.COLLATERAL),
    ],
)
def test_the_kind_of_a_failure(fields: dict[str, Any], kind: FailureKind) -> None:
    (entry,) = a_round().failure(1, 0, **fields).build().failures.values()
    assert failure_kind(entry.failure) is kind


@pytest.mark.parametrize(
    ("job", "root"),
    [
        pytest.param(a_round().failure(1, 1).failure(1, 0), "1/0001.0", id="the earliest in etcd's order"),
        pytest.param(
            a_round().failure(1, 1).failure(1, 0, exit_code=-11), "1/0000.0", id="a signal comes before an exit"
        ),
        pytest.param(
            a_round().failure(1, 1).failure(1, 0, oom=True), "1/0000.0", id="out of memory comes before an exit"
        ),
        pytest.param(
            a_round().failure(1, 1).failure(1, 0, exit_code=-11, late=True), "1/0000.0", id="also when it is late"
        ),
        pytest.param(
            a_round().failure(1, 1, exit_code=-15, stopped_by_agent=True).failure(1, 0),
            "1/0000.0",
            id="never a worker that the agent stopped",
        ),
        pytest.param(
            a_round().failure(1, 2, 1, exit_code=-6).failure(1, 2, 0, exit_code=-9), "1/0002.1", id="the earlier signal"
        ),
    ],
)
def test_root_cause(job: ViewBuilder, root: str) -> None:
    assert str(cause_of(job).key) == root


PEER = "ConnectionResetError: [Errno 104] Connection reset by peer"


@pytest.mark.parametrize(
    ("job", "root"),
    [
        pytest.param(
            a_round().failure(1, 0, message=PEER).failure(1, 1, message="ValueError: x"),
            1,
            id="its own message comes before a peer's",
        ),
        pytest.param(
            a_round().failure(1, 0, message=PEER).failure(1, 1),
            1,
            id="a failure without a message comes before a peer's",
        ),
        pytest.param(
            a_round().failure(1, 0, message=PEER).failure(1, 1, exit_code=-11, stopped_by_agent=True, late=True),
            1,
            id="a crash that was under way when the agent signalled",
        ),
        pytest.param(
            a_round().failure(1, 0, message="ValueError: x").failure(1, 1, exit_code=-11, stopped_by_agent=True),
            0,
            id="a worker that failed by itself comes before a crash after a signal",
        ),
        pytest.param(
            a_round().failure(1, 0, message=PEER).failure(1, 1, exit_code=-15, message="boom", stopped_by_agent=True),
            1,
            id="an error that was reported before the signal",
        ),
        pytest.param(
            a_round()
            .failure(1, 0, exit_code=-6, stderr=f"what(): {PEER}", message="core dumped")
            .failure(1, 1, message="ValueError: x"),
            1,
            id="an abort because of a peer is a collateral failure too",
        ),
        pytest.param(
            a_round().failure(1, 0, message="ValueError: x").failure(1, 1, port_taken=True, message="EADDRINUSE"),
            1,
            id="a taken port comes before all others",
        ),
        pytest.param(
            a_round().failure(1, 2, message=PEER).failure(1, 0, message=PEER),
            2,
            id="only collateral failures: the first",
        ),
    ],
)
def test_the_root_cause_among_collateral_failures(job: ViewBuilder, root: int) -> None:
    assert cause_of(job).key.slot == root


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


@pytest.mark.parametrize("result", VICTIMS)
def test_a_message_that_blames_a_peer_is_collateral_even_if_it_was_first(result: str) -> None:
    job = a_round().failure(1, 0, message=result).failure(1, 1, message="OSError: [Errno 28] No space left")
    assert cause_of(job).key.slot == 1


@pytest.mark.parametrize("result", OWN)
def test_a_fault_of_the_program_is_the_root_cause_even_if_it_was_last(result: str) -> None:
    job = a_round().failure(1, 0, message=PEER).failure(1, 2, message=VICTIMS[-4]).failure(1, 1, message=result)
    assert cause_of(job).key.slot == 1


def test_a_full_disk_is_the_root_cause_in_every_order_of_the_failures() -> None:
    dice = random.Random(28)
    for _ in range(100):
        job = a_round()
        for slot in dice.sample(range(3), 3):
            job = job.failure(1, slot, message=OWN[0] if slot == 1 else dice.choice(VICTIMS))
        root = cause_of(job)
        assert (root.key.slot, root.failure.message) == (1, OWN[0])


def test_the_message_of_an_abort_is_found_before_its_stack() -> None:
    frames = "".join(
        f"frame #{n}: c10d::ProcessGroupNCCL::watchdogHandler() + 0x{n:x} (libtorch_cuda.so)\n" for n in range(20)
    )
    stderr = (
        f"terminate called after throwing\n  what():  [Rank 0] Watchdog caught collective operation timeout\n{frames}"
    )
    abort: dict[str, Any] = {"exit_code": -6, "signal": "SIGABRT", "stderr": stderr}
    assert cause_of(a_round().failure(1, 0, **abort).failure(1, 1, message=OWN[0])).key.slot == 1

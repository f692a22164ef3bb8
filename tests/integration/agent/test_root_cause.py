"""One of eight ranks fails, and seven report "connection reset" within milliseconds: the first is the root cause."""

import random
import signal
from pathlib import Path
from typing import Any

import pytest

from elasticjob_etcd.embedded import EmbeddedEtcd
from testing.processes.scripted_fleet import ScriptedFleet, scripted_fleet

pytestmark = pytest.mark.etcd

PEER = "ConnectionResetError: [Errno 104] Connection reset by peer"
FULL = "OSError: [Errno 28] No space left on device"
TRACEBACK = 'Traceback (most recent call last):\n  File "train.py", line 7, in <module>\n    torch.save(x)\n'
SPREAD_S = 0.006
OPTIONS = ("--progress", "--doomed")

SEGFAULT = {"signal": int(signal.SIGSEGV)}
FULL_DISK = {"say": TRACEBACK + FULL, "exit": 1}


def failing_orders(dice: random.Random, victim: int, reason: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the orders of all ranks: each fails after a few random milliseconds, so in any order."""
    orders = {str(rank): {"after_s": dice.uniform(0, SPREAD_S), "say": PEER, "exit": 1} for rank in range(8)}
    orders[str(victim)] = {"after_s": dice.uniform(0, SPREAD_S), **reason}
    return orders


def rounds_end(
    job: ScriptedFleet, rounds: int, dice: random.Random, reason: dict[str, Any]
) -> list[tuple[int, str, int]]:
    """End rounds by failures. Return (rank with the reason, reason in the record, rank in the record) of each."""
    results = []
    for round_ in range(1, rounds + 1):
        job.await_round(round_, 8)
        if job.is_warm:
            job.await_forked_ahead(round_)
        victim = dice.randrange(8)
        job.give_orders(round_, failing_orders(dice, victim, reason))
        job.await_round(round_ + 1, 8)
        root = job.root_cause(round_)
        results.append((victim, root.signal if "signal" in reason else root.message, root.rank))
    return results


def all_are_named(
    endpoint: str, folder: Path, agents: int, rounds: int, reason: dict[str, Any] = SEGFAULT, *, is_warm: bool = False
) -> None:
    named = FULL if reason is FULL_DISK else signal.Signals(reason["signal"]).name
    options: dict[str, Any] = {"max_restarts": rounds, "options": OPTIONS, "is_warm": is_warm}
    with scripted_fleet(endpoint, folder, str(agents), 8 // agents, **options) as job:
        job.begin(agents)
        results = rounds_end(job, rounds, random.Random(agents), reason)
        assert results == [(victim, named, victim) for victim, _, _ in results]
        assert job.restarts(rounds + 1) == {str(rounds)}, "each is charged once"
        warm = [all(point["warm"] for point in job.running(round_)) for round_ in range(2, rounds + 2)]
        # A busy agent may learn of a fork too late for a round, and the round does not wait.
        assert sum(warm) > rounds / 2 if is_warm else not any(warm), warm
        job.all_finish()


@pytest.mark.parametrize("agents", [1, 4])
def test_a_segfault_is_the_root_cause_in_every_run(agents: int, etcd_server: EmbeddedEtcd, tmp_path: Path) -> None:
    all_are_named(etcd_server.endpoint.targets[0], tmp_path, agents, 5)


# The warm starts of a node end after two crashes in a row.
@pytest.mark.parametrize(("reason", "rounds"), [(SEGFAULT, 2), (FULL_DISK, 5)], ids=["segfault", "full disk"])
def test_the_root_cause_among_warm_workers_is_named(
    reason: dict[str, Any], rounds: int, etcd_server: EmbeddedEtcd, tmp_path: Path
) -> None:
    all_are_named(etcd_server.endpoint.targets[0], tmp_path, 2, rounds, reason, is_warm=True)


def test_a_full_disk_is_the_root_cause_in_every_run(etcd_server: EmbeddedEtcd, tmp_path: Path) -> None:
    all_are_named(etcd_server.endpoint.targets[0], tmp_path, 4, 5, FULL_DISK)


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_a_full_disk_is_the_root_cause_in_100_of_100_runs(etcd_server: EmbeddedEtcd, tmp_path: Path) -> None:
    all_are_named(etcd_server.endpoint.targets[0], tmp_path, 2, 100, FULL_DISK)


@pytest.mark.nightly
@pytest.mark.timeout(1200)
def test_the_root_cause_among_warm_workers_is_named_in_100_of_100_runs(
    etcd_server: EmbeddedEtcd, tmp_path: Path
) -> None:
    all_are_named(etcd_server.endpoint.targets[0], tmp_path, 4, 100, FULL_DISK, is_warm=True)


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize("agents", [1, 2, 4])
def test_a_segfault_is_the_root_cause_in_100_of_100_runs(
    agents: int, etcd_server: EmbeddedEtcd, tmp_path: Path
) -> None:
    all_are_named(etcd_server.endpoint.targets[0], tmp_path, agents, 100)

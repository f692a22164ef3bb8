"""One of eight ranks segfaults, seven say "connection reset" within milliseconds of it: the segfault is named."""

import random
import signal
from pathlib import Path
from typing import Any

import pytest

from elasticjob_etcd.server import EtcdServer
from tests.faults.drill import Drill, drill

pytestmark = pytest.mark.etcd

PEER = "ConnectionResetError: [Errno 104] Connection reset by peer"
SPREAD_S = 0.006
OPTIONS = ("--progress", "--doomed")


def misfortune(dice: random.Random, victim: int) -> dict[str, dict[str, Any]]:
    """Who does what, after how many of a few milliseconds: any order is possible."""
    orders = {str(rank): {"after_s": dice.uniform(0, SPREAD_S), "say": PEER, "exit": 1} for rank in range(8)}
    orders[str(victim)] = {"after_s": dice.uniform(0, SPREAD_S), "signal": int(signal.SIGSEGV)}
    return orders


def segfaults(job: Drill, rounds: int, dice: random.Random) -> list[tuple[int, str, int]]:
    """So many rounds end so; (rank that crashed, signal named, rank named) of each."""
    told = []
    for round_ in range(1, rounds + 1):
        job.await_round(round_, 8)
        victim = dice.randrange(8)
        job.order(round_, misfortune(dice, victim))
        job.await_round(round_ + 1, 8)
        root = job.root(round_)
        told.append((victim, root.signal, root.rank))
    return told


def all_are_named(endpoint: str, folder: Path, agents: int, rounds: int) -> None:
    with drill(endpoint, folder, str(agents), 8 // agents, max_restarts=rounds, options=OPTIONS) as job:
        job.begin(agents)
        told = segfaults(job, rounds, random.Random(agents))
        assert told == [(victim, "SIGSEGV", victim) for victim, _, _ in told]
        assert job.restarts(rounds + 1) == {str(rounds)}, "each is charged once"
        job.all_finish()


@pytest.mark.parametrize("agents", [1, 4])
def test_the_segfault_is_the_root_cause_in_every_run(agents: int, etcd_server: EtcdServer, tmp_path: Path) -> None:
    all_are_named(etcd_server.endpoint.targets[0], tmp_path, agents, 5)


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize("agents", [1, 2, 4])
def test_the_segfault_is_the_root_cause_in_100_of_100_runs(
    agents: int, etcd_server: EtcdServer, tmp_path: Path
) -> None:
    all_are_named(etcd_server.endpoint.targets[0], tmp_path, agents, 100)

"""Faults of etcd: healthy workers are never affected, nothing is charged, and the job can continue afterwards.

Each node has a host name of its own: when many hosts become silent at once, the leader assumes a fault of the network.
"""

import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from elasticjob_api.rendezvous_state import RoundPhase
from testing.network.proxy import proxy
from testing.processes.scripted_fleet import ScriptedFleet, scripted_fleet
from testing.servers.etcds import OwnEtcd, own_etcd, three_etcds
from testing.waiting import eventually

pytestmark = pytest.mark.etcd

LOST = "lost the lease of this session"


def begin(job: ScriptedFleet, *, way: str | None = None) -> None:
    """Start three nodes on three hosts in round 1; the last one reaches etcd through `way`."""
    job.set_replicas()
    for slot in range(3):
        job.run_scripted_on(f"host-{slot}", slot, way=way if slot == 2 else None)
    job.await_round(1, 3)


def is_whole(job: ScriptedFleet) -> bool:
    """Whether every node is in etcd, and there is a leader."""
    try:
        return len(job.view().nodes) == 3 and job.slot_of_leader() >= 0
    except Exception:  # noqa: BLE001 -- etcd may still be down: try again
        return False


def continues(job: ScriptedFleet, at: str | None = None) -> None:
    """Check that no worker was affected, and that the next failure of all three nodes costs exactly one restart."""
    job.endpoint = at or job.endpoint
    eventually(lambda: is_whole(job), within_s=60, what="all nodes in etcd", pause_s=0.2)
    assert job.rounds() == {1}
    assert all(psutil.pid_exists(pid) for pid in job.pids(1))
    job.give_orders(1, {"1": {"exit": 1}})
    job.await_round(2, 3)
    state = job.await_state(RoundPhase.ACTIVE, 2)
    assert (state.restarts, state.node_losses) == (1, 0)
    job.all_finish()
    assert job.rounds() == {1, 2}


def all_lose_their_lease(job: ScriptedFleet) -> None:
    eventually(lambda: all(job.reported(agent, LOST) for agent in range(3)), within_s=90, what="all leases lost")


@pytest.mark.nightly
def test_a_node_comes_back_after_a_stall_of_etcd_beyond_its_lease_without_a_round(
    tmp_path: Path,
) -> None:
    with own_etcd(tmp_path) as etcd, scripted_fleet(etcd.endpoint, tmp_path, "1", 2) as job:
        job.begin(1)
        with etcd.stalled():
            job.await_reported(0, LOST)
        job.await_reported(0, "the workers were not touched")
        job.all_finish()
        assert job.rounds() == {1}


def test_a_failure_during_a_stall_of_etcd_is_recorded_and_charged_afterwards(tmp_path: Path) -> None:
    with own_etcd(tmp_path) as etcd, scripted_fleet(etcd.endpoint, tmp_path, "3", 1, keep_alive_s=60) as job:
        begin(job)
        with etcd.stalled():
            job.give_orders(1, {"0": {"exit": 1}})
            owner = next(agent for agent, ranks in job.ranks(1).items() if ranks == [0])
            job.await_reported(owner, "could not open a round for a failed worker, trying again")
        job.await_round(2, 3)
        state = job.await_state(RoundPhase.ACTIVE, 2)
        assert (state.restarts, state.node_losses) == (1, 0)
        job.all_finish()
        assert job.rounds() == {1, 2}


def test_a_stall_of_etcd_beyond_the_leases_of_three_nodes_costs_nothing(tmp_path: Path) -> None:
    with own_etcd(tmp_path) as etcd, scripted_fleet(etcd.endpoint, tmp_path, "3", 1) as job:
        begin(job)
        with etcd.stalled():
            all_lose_their_lease(job)
        continues(job)


def test_a_restart_of_etcd_with_its_data_costs_nothing(tmp_path: Path) -> None:
    with own_etcd(tmp_path) as etcd, scripted_fleet(etcd.endpoint, tmp_path, "3", 1, keep_alive_s=60) as job:
        begin(job)
        etcd.kill()
        etcd.start()
        continues(job)


def test_after_a_wipe_of_etcd_the_nodes_write_their_state_back(tmp_path: Path) -> None:
    with own_etcd(tmp_path) as etcd, scripted_fleet(etcd.endpoint, tmp_path, "3", 1, keep_alive_s=6) as job:
        begin(job)
        etcd.wipe()
        continues(job)


def test_a_watch_whose_revisions_were_compacted_lists_again(tmp_path: Path) -> None:
    with (
        own_etcd(tmp_path) as etcd,
        scripted_fleet(etcd.endpoint, tmp_path, "3", 1, keep_alive_s=30) as job,
        proxy("127.0.0.1", etcd.port) as way,
    ):
        begin(job, way=way.endpoint)
        way.refuse()
        job.set_replicas(max_restarts=7)
        job.give_orders(1, {"0": {"exit": 1}})
        job.await_state(RoundPhase.FORMING, 2)
        job.set_replicas(max_restarts=8)
        etcd.compact()
        way.restore()
        job.await_round(2, 3)
        assert job.restarts(2) == {"1"}
        job.all_finish()


def test_a_full_etcd_refuses_a_failure_and_it_is_written_later(tmp_path: Path) -> None:
    with (
        own_etcd(tmp_path, f"--quota-backend-bytes={8 << 20}") as etcd,
        scripted_fleet(etcd.endpoint, tmp_path, "3", 1) as job,
    ):
        begin(job)
        etcd.fill()
        job.give_orders(1, {"0": {"exit": 1}})
        owner = next(agent for agent, ranks in job.ranks(1).items() if ranks == [0])
        job.await_reported(owner, "could not open a round for a failed worker, trying again")
        etcd.clear()
        job.await_round(2, 3)
        state = job.await_state(RoundPhase.ACTIVE, 2)
        assert (state.restarts, state.node_losses) == (1, 0)
        job.all_finish()


def test_the_death_of_the_leader_of_three_etcds_costs_nothing(tmp_path: Path) -> None:
    with (
        three_etcds(tmp_path) as etcds,
        scripted_fleet(",".join(etcds.endpoints), tmp_path, "3", 1, keep_alive_s=60) as job,
    ):
        begin(job)
        leader = etcds.leader
        assert leader is not None
        etcds.kill(leader)
        eventually(lambda: etcds.leader is not None, within_s=60, what="another leader", pause_s=0.1)
        continues(job)


def test_a_worker_fails_while_the_etcd_member_of_its_node_is_stalled(tmp_path: Path) -> None:
    with (
        three_etcds(tmp_path) as etcds,
        scripted_fleet(",".join(etcds.endpoints), tmp_path, "3", 1, keep_alive_s=9) as job,
    ):
        begin(job)
        job.endpoint = etcds.endpoints[1]
        with etcds.stalled(0):  # all three nodes are connected to the first of the list
            continues(job)
        assert not any(job.reported(agent, LOST) for agent in range(3))


@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_a_stall_of_etcd_for_30_seconds_costs_nothing(tmp_path: Path) -> None:
    with own_etcd(tmp_path) as etcd, scripted_fleet(etcd.endpoint, tmp_path, "3", 1, keep_alive_s=6) as job:
        begin(job)
        with etcd.stalled():
            time.sleep(30)
        continues(job)


def cpu_s(job: ScriptedFleet) -> float:
    """Return the processor seconds of the agents so far, without their workers."""
    return sum(sum(psutil.Process(agent.pid).cpu_times()[:2]) for agent in job.agents)


@pytest.mark.nightly
@pytest.mark.timeout(300)
@pytest.mark.parametrize("away", [OwnEtcd.kill, OwnEtcd.suspend], ids=["killed", "suspended"])
def test_without_etcd_an_agent_takes_less_than_one_percent_of_a_core(
    away: Callable[[OwnEtcd], None], tmp_path: Path
) -> None:
    with own_etcd(tmp_path) as etcd, scripted_fleet(etcd.endpoint, tmp_path, "3", 1) as job:
        begin(job)
        away(etcd)
        all_lose_their_lease(job)
        before_s, start_s = cpu_s(job), time.monotonic()
        time.sleep(30)
        share = (cpu_s(job) - before_s) / (time.monotonic() - start_s) / len(job.agents)
        assert share < 0.01, f"{share:.2%} of a core"

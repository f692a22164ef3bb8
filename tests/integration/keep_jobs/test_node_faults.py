"""Jobs whose nodes, keepers and sizes change while steps are copied: no committed step is lost, and nothing waits."""

import signal
from pathlib import Path

import pytest

from elasticjob_api.rendezvous_state import Cause
from testing.network.netns import run_in_own_network
from testing.waiting import eventually
from tests.integration.keep_jobs.conftest import MakeTraining
from tests.integration.keep_jobs.training_fleet import TrainingFleet


def test_a_committed_step_outlives_the_leader_that_is_killed_in_the_next_commit(training: MakeTraining) -> None:
    fleet = training("3", 1, size_limit="256Mi", padding=4 << 20)
    fleet.begin(3)
    fleet.train_to(1, 1, 3)
    fleet.train_to(2, 1, 3)
    fleet.await_committed(2, 0, 1, 2)
    leader = fleet.leader()
    fleet.train_to(3, 1, 3)  # its copies and its commit have begun
    fleet.kill_agent(leader, with_memory=True)
    fleet.run_training()
    fleet.await_round(2, 3)
    assert fleet.restored(2) in ({2}, {3})
    fleet.train_to(4, 2, 3)
    fleet.train_to(5, 2, 3)
    fleet.await_committed(5, *{0, 1, 2, 3} - {leader})
    assert fleet.finish_all().count(0) == 3


def test_a_step_of_four_parts_is_restored_by_two_nodes_and_by_five(training: MakeTraining) -> None:
    fleet = training("1:5", 1)
    for _ in range(4):
        fleet.run_training()
    four = fleet.await_world(4)
    fleet.train_to(3, four, 4)
    fleet.leave(2)
    fleet.leave(3)
    two = fleet.await_world(2)
    assert fleet.restored(two) == {3}
    # Older steps go when the restored one is committed again.
    eventually(lambda: [len(fleet.held(agent)) for agent in (0, 1)] == [4, 4], what="all parts at both nodes")
    for _ in range(3):
        fleet.run_training()
    five = fleet.await_world(5)
    assert fleet.restored(five) == {3}
    fleet.train_to(4, five, 5)
    fleet.kill_worker(five, 0)
    fleet.await_round(five + 1, 5)
    assert fleet.restored(five + 1) == {4}


def test_a_node_that_leaves_serves_the_part_that_it_has_alone(training: MakeTraining) -> None:
    fleet = training("1:2", 1, copies=0)
    fleet.run_training()
    fleet.run_training()
    two = fleet.await_world(2)
    fleet.train_to(4, two, 2)
    fleet.leave(1)
    one = fleet.await_world(1)
    assert fleet.restored(one) == {4}
    assert fleet.agents[1].wait(60) == 143
    assert not fleet.volumes[1].exists()


def test_a_stopped_keeper_delays_no_training_and_its_node_restores_what_it_published(training: MakeTraining) -> None:
    fleet = training("2", 1)
    fleet.begin(2)
    fleet.train_to(2, 1, 2)
    stopped = fleet.keeper(1)
    stopped.send_signal(signal.SIGSTOP)
    eventually(lambda: stopped.status() == "stopped", what="the keeper is stopped")  # a busy machine takes its time
    fleet.train_to(6, 1, 2)  # both train on while it is stopped
    assert stopped.status() == "stopped"
    fleet.kill_worker(1, 0)
    fleet.await_round(2, 2)
    assert fleet.restored(2) == {6}
    assert not stopped.is_running()
    assert fleet.keeper(1).pid != stopped.pid


def spoil(fleet: TrainingFleet, agent: int, index: int) -> int:
    """Write into a file of each held part of this index after it was published; return how many parts that are."""
    states = [*fleet.volumes[agent].glob(f"volume/held/*/*/{index}-of-*/part-{index}")]
    for state in states:
        with state.open("a") as late:
            late.write("more")
    return len(states)


def test_a_part_that_changed_after_it_was_published_is_fetched_from_its_replica(training: MakeTraining) -> None:
    fleet = training("2", 1)
    fleet.begin(2)
    fleet.train_to(1, 1, 2)
    fleet.train_to(2, 1, 2)
    fleet.await_committed(2, 0, 1)
    agent = next(agent for agent, ranks in fleet.ranks(1).items() if ranks == [0])
    assert spoil(fleet, agent, 0) == 1
    fleet.kill_worker(1, 1)
    fleet.await_round(2, 2)
    assert fleet.restored(2) == {2}


def test_restores_that_fail_end_and_are_charged_to_no_worker(training: MakeTraining) -> None:
    fleet = training("2", 1)
    fleet.begin(2)
    fleet.train_to(1, 1, 2)
    fleet.train_to(2, 1, 2)
    fleet.await_committed(2, 0, 1)
    behind = next(agent for agent, ranks in fleet.ranks(1).items() if ranks == [1])
    fleet.keeper(behind).send_signal(signal.SIGSTOP)  # so nothing newer is committed
    fleet.train_to(3, 1, 2)
    fleet.train_to(4, 1, 2)
    fleet.await_held(1 - behind, 4, 1)
    assert spoil(fleet, 1 - behind, 0) == 3
    assert spoil(fleet, behind, 0) == 1
    fleet.kill_worker(1, 1)
    eventually(lambda: fleet.restored(max(fleet.rounds())) == {None} and max(fleet.rounds()) > 1, within_s=90)
    state, last = fleet.state(), max(fleet.rounds())
    assert (state.cause, state.restarts, last) == (Cause.RESTORE_FAILED, 1, 5)  # three strikes: 4, 3 and 2
    fleet.train_to(5, last, 2)
    fleet.kill_worker(last, 1)
    fleet.await_round(last + 1, 2)
    assert fleet.restored(last + 1) == {5}


@pytest.mark.parametrize("leader", ["here", "there"])
def test_the_branch_of_a_node_that_was_cut_off_is_refused_when_it_is_back(tmp_path: Path, leader: str) -> None:
    run_in_own_network("tests.integration.keep_jobs.cut_node", str(tmp_path), leader, within_s=150)

"""SIGTERM, and the leader's death, in every phase of a node: nothing is charged, and the job succeeds."""

import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from elasticjob_api.rendezvous_state import RoundPhase
from elasticjob_api.rendezvous_view import RendezvousView
from elasticjob_etcd.embedded import EmbeddedEtcd
from testing.network.proxy import proxy
from testing.processes.scripted_fleet import ScriptedFleet, scripted_fleet
from testing.waiting import eventually, scaled

pytestmark = pytest.mark.etcd

LEFT = 128 + signal.SIGTERM
SAVES = ("--progress", "--save", "SIGTERM")


@pytest.fixture
def job(etcd_server: EmbeddedEtcd, tmp_path: Path) -> Iterator[ScriptedFleet]:
    """A job with two to three nodes of one worker; any failure of a worker would end it."""
    with scripted_fleet(etcd_server.endpoint.targets[0], tmp_path, "2:3", 1, max_restarts=0) as made:
        yield made


@pytest.fixture
def saving(etcd_server: EmbeddedEtcd, tmp_path: Path) -> Iterator[ScriptedFleet]:
    """The same job; its workers stop only when the test releases them."""
    with scripted_fleet(etcd_server.endpoint.targets[0], tmp_path, "2:3", 1, max_restarts=0, options=SAVES) as made:
        made.set_replicas(graceful_shutdown_s=60.0)
        yield made


def terminate(job: ScriptedFleet, agent: int) -> None:
    job.agents[agent].send_signal(signal.SIGTERM)


def left(job: ScriptedFleet, agent: int) -> bool:
    return job.agents[agent].wait(scaled(30)) == LEFT


def nothing_was_charged(job: ScriptedFleet, round_: int) -> bool:
    return job.restarts(round_) == {"0"}


def nodes(job: ScriptedFleet, count: int) -> RendezvousView:
    """Wait until `count` nodes are in the job, and return the view."""

    def complete() -> RendezvousView | None:
        view = job.view()
        return view if len(view.nodes) == count else None

    view = eventually(complete, within_s=30, what=f"{count} nodes", pause_s=0.05)
    assert view is not None
    return view


# SIGTERM.


def test_sigterm_before_joining(etcd_server: EmbeddedEtcd, job: ScriptedFleet) -> None:
    with proxy("127.0.0.1", etcd_server.port) as way:
        way.refuse()
        agent = job.run_scripted(way=way.endpoint)
        job.await_reported(agent, "etcd does not answer")
        terminate(job, agent)
        assert left(job, agent)
        assert job.reported(agent, "left before joining")


def test_sigterm_while_a_round_forms(job: ScriptedFleet) -> None:
    first = job.run_scripted()
    nodes(job, 1)
    terminate(job, first)
    assert left(job, first)
    job.run_scripted()
    job.run_scripted()
    job.await_round(1, 2)
    assert first not in job.ranks(1)
    job.all_finish(1, 2)


def fork_server_of(job: ScriptedFleet, agent: int) -> psutil.Process:
    """Return the process that starts this agent's workers."""
    children = psutil.Process(job.agents[agent].pid).children()
    return next(child for child in children if any("forkserver" in word for word in child.cmdline()))


@contextlib.contextmanager
def suspended(process: psutil.Process) -> Iterator[None]:
    """Suspend the process inside; resume it afterwards, also after an error, if it still exists."""
    process.suspend()
    try:
        yield
    finally:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.resume()


def test_sigterm_while_workers_are_being_started(job: ScriptedFleet) -> None:
    job.set_replicas(min=3)
    held = [job.run_scripted(), job.run_scripted()][0]
    nodes(job, 2)
    with suspended(fork_server_of(job, held)):
        job.run_scripted()
        job.await_state(RoundPhase.ACTIVE, 1)
        job.set_replicas(min=2)
        terminate(job, held)
        job.await_state(RoundPhase.FORMING, 2)
    assert left(job, held)
    job.await_round(2, 2)
    assert nothing_was_charged(job, 2)
    job.all_finish(1, 2)


def test_sigterm_while_workers_run(job: ScriptedFleet) -> None:
    job.begin(3)
    terminate(job, 1)
    assert left(job, 1)
    job.await_round(2, 2)
    assert nothing_was_charged(job, 2)
    job.all_finish(0, 2)
    assert job.rounds() == {1, 2}


def test_sigterm_while_workers_stop(saving: ScriptedFleet) -> None:
    saving.begin(3)
    saving.set_replicas(restart_id="again")
    saving.await_point("told", 1, 3)
    terminate(saving, 1)
    saving.await_reported(1, "got SIGTERM")
    saving.start_rounds()
    assert left(saving, 1)
    saving.await_round(2, 2)
    assert nothing_was_charged(saving, 2)
    saving.all_finish(0, 2)
    assert saving.rounds() == {1, 2}


def done(job: ScriptedFleet, count: int) -> None:
    eventually(lambda: len(job.view().completions) == count, within_s=30, what=f"{count} done", pause_s=0.05)


def test_sigterm_after_the_work_is_done_disturbs_no_other_node(job: ScriptedFleet) -> None:
    job.begin(3)
    job.give_orders(1, {"1": {"exit": 0}})
    done(job, 1)
    finished = next(agent for agent, ranks in job.ranks(1).items() if ranks == [1])
    terminate(job, finished)
    assert left(job, finished)
    job.all_finish(*(agent for agent in range(3) if agent != finished))
    assert job.rounds() == {1}


# The leader's death.


def kill_leader(job: ScriptedFleet) -> tuple[int, list[int]]:
    """Kill the leader with SIGKILL. Return (leader, other agents)."""
    leader = job.agent_of(job.slot_of_leader())
    job.agents[leader].kill()
    return leader, [agent for agent in range(len(job.agents)) if agent != leader]


def test_the_leader_is_killed_while_the_first_round_forms(job: ScriptedFleet) -> None:
    job.set_replicas(min=3)
    job.run_scripted()
    job.run_scripted()
    nodes(job, 2)
    leader, others = kill_leader(job)
    job.run_scripted()
    job.run_scripted()
    job.await_round(1, 3)
    assert leader not in job.ranks(1)
    job.all_finish(*others, 2, 3)


def test_the_leader_is_killed_while_workers_are_being_started(job: ScriptedFleet) -> None:
    """The leader's workers do not run yet, those of the others may."""
    job.set_replicas(min=3)
    job.run_scripted()
    job.run_scripted()
    nodes(job, 2)
    leader = job.agent_of(job.slot_of_leader())
    with suspended(fork_server_of(job, leader)):
        job.run_scripted()
        job.await_state(RoundPhase.ACTIVE, 1)
        job.set_replicas(min=2)
        kill_leader(job)
        job.await_round(2, 2)
    assert (leader in job.ranks(1), nothing_was_charged(job, 2)) == (False, True)
    job.all_finish(*(agent for agent in range(3) if agent != leader))


def test_the_leader_is_killed_while_workers_run(job: ScriptedFleet) -> None:
    job.begin(3)
    _, others = kill_leader(job)
    job.await_round(2, 2)
    state = job.await_state(RoundPhase.ACTIVE, 2)
    assert (state.restarts, state.node_losses) == (0, 1)
    job.all_finish(*others)
    assert job.rounds() == {1, 2}


def test_the_leader_is_killed_while_workers_stop(saving: ScriptedFleet) -> None:
    saving.begin(3)
    saving.set_replicas(restart_id="again")
    saving.await_point("told", 1, 3)
    _, others = kill_leader(saving)
    nodes(saving, 2)
    saving.start_rounds()
    saving.await_round(2, 2)
    assert nothing_was_charged(saving, 2)
    saving.all_finish(*others)
    assert saving.rounds() == {1, 2}


def test_the_leader_is_killed_after_its_verdict_and_there_is_no_second_verdict(
    etcd_server: EmbeddedEtcd, tmp_path: Path
) -> None:
    """The state `forming` contains the verdict while the round waits for a back-off, which the test ends."""
    with scripted_fleet(etcd_server.endpoint.targets[0], tmp_path, "2:3", 1, options=()) as job:
        job.set_replicas(backoff_initial_s=600.0, backoff_max_s=600.0)
        job.begin(3)
        for round_ in (1, 2):
            job.await_round(round_, 3)
            job.give_orders(round_, {"*": {"exit": 1}})
        job.await_state(RoundPhase.FORMING, 3)
        eventually(lambda: getattr(job.state(), "has_verdict", False), within_s=30, what="the verdict", pause_s=0.05)
        _, others = kill_leader(job)
        nodes(job, 2)
        job.set_replicas(backoff_initial_s=0.0)
        job.await_round(3, 2)
        state = job.await_state(RoundPhase.ACTIVE, 3)
        assert (state.restarts, state.node_losses) == (2, 0)
        job.all_finish(*others)


def test_the_leader_is_killed_after_its_work_is_done_and_is_not_lost(job: ScriptedFleet) -> None:
    job.begin(3)
    leader = job.agent_of(job.slot_of_leader())
    (rank,) = job.ranks(1)[leader]
    job.give_orders(1, {str(rank): {"exit": 0}})
    done(job, 1)
    _, others = kill_leader(job)
    nodes(job, 2)
    job.all_finish(*others)
    assert job.rounds() == {1}

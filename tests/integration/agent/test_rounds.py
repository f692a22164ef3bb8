"""Real agents, real etcd, real workers: each fault causes exactly one new round with the expected ranks."""

import os
import signal
from pathlib import Path

import pytest

from elasticjob_etcd.embedded import EmbeddedEtcd
from testing.processes.fleet import Fleet, fleet
from testing.waiting import eventually, scaled

pytestmark = pytest.mark.etcd


@pytest.fixture
def endpoint(etcd_server: EmbeddedEtcd) -> str:
    """The shared etcd."""
    return etcd_server.endpoint.targets[0]


def all_finish(job: Fleet, agents: list[int]) -> None:
    """End the job with success: these agents exit with 0."""
    job.finish()
    codes = job.await_ends()
    assert [codes[agent] for agent in agents] == [0] * len(agents), job.log_of(agents[0]).read_text()


def test_worker_that_exits_1_causes_exactly_one_round_with_the_same_ranks(endpoint: str, tmp_path: Path) -> None:
    with fleet(endpoint, tmp_path, "3", 1) as job:
        job.start_agents(3)
        job.fail(1)
        job.await_round(2, 3)
        assert job.ranks(2) == job.ranks(1)
        assert {p["env"]["TORCHELASTIC_RESTART_COUNT"] for p in job.running(2)} == {"1"}
        all_finish(job, [0, 1, 2])
        assert job.rounds() == {1, 2}


def test_worker_killed_by_sigkill_counts_as_one_restart(endpoint: str, tmp_path: Path) -> None:
    with fleet(endpoint, tmp_path, "2", 2) as job:
        job.start_agents(2)
        os.kill(job.running(1)[0]["pid"], signal.SIGKILL)
        job.await_round(2, 4)
        assert {p["env"]["TORCHELASTIC_RESTART_COUNT"] for p in job.running(2)} == {"1"}
        all_finish(job, [0, 1])
        assert job.rounds() == {1, 2}


def test_an_agent_leaves_on_sigterm_and_the_others_keep_their_order(endpoint: str, tmp_path: Path) -> None:
    with fleet(endpoint, tmp_path, "2:3", 1) as job:
        job.start_agents(3)
        leaver = next(agent for agent, ranks in job.ranks(1).items() if ranks == [1])
        job.agents[leaver].send_signal(signal.SIGTERM)
        job.await_round(2, 2)
        assert [a for a, _ in sorted(job.ranks(2).items(), key=lambda p: p[1])] == [
            a for a, _ in sorted(job.ranks(1).items(), key=lambda p: p[1]) if a != leaver
        ]
        assert job.agents[leaver].wait(scaled(10)) == 128 + signal.SIGTERM
        assert {p["env"]["TORCHELASTIC_RESTART_COUNT"] for p in job.running(2)} == {"0"}
        all_finish(job, [a for a in range(3) if a != leaver])
        assert job.rounds() == {1, 2}


def test_agent_killed_by_sigkill_is_a_loss_never_a_restart_and_its_workers_die(endpoint: str, tmp_path: Path) -> None:
    with fleet(endpoint, tmp_path, "2:3", 1, conf="keep_alive=2") as job:
        job.start_agents(3)
        victim = next(agent for agent, ranks in job.ranks(1).items() if ranks == [0])
        worker = next(p["pid"] for p in job.running(1) if p["of"] == victim)
        job.agents[victim].kill()
        eventually(lambda: not Path(f"/proc/{worker}").exists(), what="worker of the killed agent gone")
        job.await_round(2, 2)
        assert {p["env"]["TORCHELASTIC_RESTART_COUNT"] for p in job.running(2)} == {"0"}
        all_finish(job, [a for a in range(3) if a != victim])
        assert job.rounds() == {1, 2}


def test_joining_agent_causes_exactly_one_round_and_takes_the_last_place(endpoint: str, tmp_path: Path) -> None:
    with fleet(endpoint, tmp_path, "2:3", 1) as job:
        job.start_agents(2)
        job.start_agent()
        job.await_round(2, 3)
        assert job.ranks(2) == {**job.ranks(1), 2: [2]}
        all_finish(job, [0, 1, 2])
        assert job.rounds() == {1, 2}


def test_replacement_takes_the_vacated_place(endpoint: str, tmp_path: Path) -> None:
    with fleet(endpoint, tmp_path, "2:2", 1) as job:
        job.start_agents(2)
        leaver = next(agent for agent, ranks in job.ranks(1).items() if ranks == [0])
        job.agents[leaver].send_signal(signal.SIGTERM)
        job.agents[leaver].wait(scaled(10))
        job.start_agent()
        job.await_round(2, 2)
        assert job.ranks(2) == {1 - leaver: [1], 2: [0]}
        all_finish(job, [1 - leaver, 2])

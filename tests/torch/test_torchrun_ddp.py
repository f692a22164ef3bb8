"""An unmodified DDP script survives faults of nodes under our agent, and under torchrun with our rendezvous."""

from pathlib import Path

import pytest

from elasticjob_etcd.embedded import EmbeddedEtcd
from tests.torch.nodes import Ddp, ddp

pytestmark = [pytest.mark.torch, pytest.mark.etcd, pytest.mark.timeout(300)]

LAUNCHERS = ["elasticjob-agent", "torchrun"]


@pytest.fixture
def endpoint(etcd_server: EmbeddedEtcd) -> str:
    """The shared etcd."""
    return etcd_server.endpoint.targets[0]


def has_resumed(job: Ddp, node: int) -> bool:
    """Whether the last start of this node's worker was from a checkpoint."""
    return job.nodes[node].beginnings()[-1].step > 0


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_killed_worker_costs_a_round_and_no_step_before_the_checkpoint(
    launcher: str, torch_python: Path, endpoint: str, tmp_path: Path
) -> None:
    with ddp(launcher, torch_python, endpoint, tmp_path, "2") as job:
        nodes = [job.start(), job.start()]
        job.await_world(nodes, 2)
        job.await_checkpoint()
        nodes[1].workers()[0].kill()
        job.await_world(nodes, 2, times=2)
        assert job.await_ends() == [0, 0], nodes[0].text()
        assert has_resumed(job, 0)
        assert has_resumed(job, 1)
        assert all("done after 150 steps" in node.text() for node in nodes)


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_after_the_death_of_an_agent_the_other_node_continues_alone(
    launcher: str, torch_python: Path, endpoint: str, tmp_path: Path
) -> None:
    with ddp(launcher, torch_python, endpoint, tmp_path, "1:2") as job:
        nodes = [job.start(), job.start()]
        job.await_world(nodes, 2)
        job.await_checkpoint()
        nodes[1].kill(alone=launcher == "elasticjob-agent")  # torchrun would leave its workers behind
        job.await_world(nodes[:1], 1)
        assert job.await_ends() == [0], nodes[0].text()
        assert has_resumed(job, 0)


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_new_node_joins_the_job(launcher: str, torch_python: Path, endpoint: str, tmp_path: Path) -> None:
    with ddp(launcher, torch_python, endpoint, tmp_path, "1:2") as job:
        job.steps = 600  # half a minute: the second node must join before the first is done
        first = job.start()
        job.await_world([first], 1)
        job.await_checkpoint()
        second = job.start()
        job.await_world([first, second], 2)
        assert job.await_ends() == [0, 0], first.text()
        assert has_resumed(job, 1)


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_spent_budget_ends_the_job_for_all(launcher: str, torch_python: Path, endpoint: str, tmp_path: Path) -> None:
    with ddp(launcher, torch_python, endpoint, tmp_path, "2", max_restarts=0) as job:
        nodes = [job.start(), job.start()]
        job.await_world(nodes, 2)
        nodes[1].workers()[0].kill()
        codes = job.await_ends()
        assert all(codes), nodes[0].text()
        assert [len(node.beginnings()) for node in nodes] == [1, 1]


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_an_agent_leaves_in_order_on_sigterm(launcher: str, torch_python: Path, endpoint: str, tmp_path: Path) -> None:
    with ddp(launcher, torch_python, endpoint, tmp_path, "1:2") as job:
        nodes = [job.start(), job.start()]
        job.await_world(nodes, 2)
        job.await_checkpoint()
        nodes[1].process.terminate()
        assert nodes[1].process.wait(60) != 0
        job.await_world(nodes[:1], 1)
        assert nodes[0].process.wait(90) == 0, nodes[0].text()

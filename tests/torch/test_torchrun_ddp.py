"""An unmodified DDP script survives what happens to nodes: under our agent, and under torchrun with our rendezvous."""

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


def went_on(job: Ddp, node: int) -> bool:
    """The last start of this node's worker was from a checkpoint."""
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
        assert went_on(job, 0)
        assert went_on(job, 1)
        assert all("done after 150 steps" in node.text() for node in nodes)


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_an_agent_that_is_killed_is_missed_and_the_other_node_goes_on_alone(
    launcher: str, torch_python: Path, endpoint: str, tmp_path: Path
) -> None:
    with ddp(launcher, torch_python, endpoint, tmp_path, "1:2") as job:
        nodes = [job.start(), job.start()]
        job.await_world(nodes, 2)
        job.await_checkpoint()
        nodes[1].kill(alone=launcher == "elasticjob-agent")  # torchrun would leave its workers behind
        job.await_world(nodes[:1], 1)
        assert job.await_ends() == [0], nodes[0].text()
        assert went_on(job, 0)


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_node_that_comes_is_taken_in(launcher: str, torch_python: Path, endpoint: str, tmp_path: Path) -> None:
    with ddp(launcher, torch_python, endpoint, tmp_path, "1:2") as job:
        job.steps = 600  # half a minute: the second node must come before the first is done
        first = job.start()
        job.await_world([first], 1)
        job.await_checkpoint()
        second = job.start()
        job.await_world([first, second], 2)
        assert job.await_ends() == [0, 0], first.text()
        assert went_on(job, 1)


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
def test_an_agent_that_is_told_to_end_leaves_in_order(
    launcher: str, torch_python: Path, endpoint: str, tmp_path: Path
) -> None:
    with ddp(launcher, torch_python, endpoint, tmp_path, "1:2") as job:
        nodes = [job.start(), job.start()]
        job.await_world(nodes, 2)
        job.await_checkpoint()
        nodes[1].process.terminate()
        assert nodes[1].process.wait(60) != 0
        job.await_world(nodes[:1], 1)
        assert nodes[0].process.wait(90) == 0, nodes[0].text()

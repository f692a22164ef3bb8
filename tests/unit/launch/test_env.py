"""The variables of each worker, and launches that are invalid."""

import pytest

from elasticjob_agent.launch._env import LaunchTopology, worker_variables


def test_b_002_24_ranks_of_the_second_node_follow_those_of_the_first() -> None:
    topology = LaunchTopology(nprocs=2, nnodes=2, node_rank=1)
    workers = [worker_variables(topology, rank, master_addr="node-0", master_port=29500) for rank in range(2)]
    assert [each["RANK"] for each in workers] == ["2", "3"]
    assert [each["LOCAL_RANK"] for each in workers] == ["0", "1"]
    assert {each["WORLD_SIZE"] for each in workers} == {"4"}
    assert {each["LOCAL_WORLD_SIZE"] for each in workers} == {"2"}
    assert {(each["MASTER_ADDR"], each["MASTER_PORT"]) for each in workers} == {("node-0", "29500")}


@pytest.mark.parametrize(
    ("topology", "port", "named"),
    [
        (LaunchTopology(nprocs=-1), None, "nprocs"),
        (LaunchTopology(nprocs=1, nnodes=0), 1, "nnodes"),
        (LaunchTopology(nprocs=1, nnodes=2, node_rank=2), 1, "node_rank"),
        (LaunchTopology(nprocs=1, nnodes=2, node_rank=-1), 1, "node_rank"),
        (LaunchTopology(nprocs=1, node_rank=1), 1, "node_rank"),
        (LaunchTopology(nprocs=1, nnodes=2), None, "master_port"),
    ],
)
def test_b_002_24_an_invalid_launch_is_a_value_error_that_names_the_argument(
    topology: LaunchTopology, port: int | None, named: str
) -> None:
    with pytest.raises(ValueError, match=named):
        topology.validate(port)


@pytest.mark.parametrize(
    ("topology", "port"),
    [(LaunchTopology(nprocs=0), None), (LaunchTopology(nprocs=8), 29500), (LaunchTopology(nprocs=2, nnodes=2), 29500)],
)
def test_a_valid_launch_passes(topology: LaunchTopology, port: int | None) -> None:
    topology.validate(port)

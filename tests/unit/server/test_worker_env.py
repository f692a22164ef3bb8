"""The variables of a worker: all those of torchrun, and equal values on all workers of a round where required."""

from typing import Any

import pytest

from elasticjob_agent.server import Worker, WorkerGroup
from elasticjob_agent.server.worker_env import worker_environment
from tests.unit.server.agents import spec


def environment(local_rank: int = 1, own: dict[str, str] | None = None, **fields: Any) -> dict[str, str]:
    """Return the variables of a worker of role ps on the second of two nodes, which has two workers."""
    group = WorkerGroup(spec(role="ps", max_restarts=7, **fields))
    group.group_rank, group.group_world_size = 1, 2
    group.master_addr, group.master_port = "host", 29511
    return worker_environment(
        Worker(local_rank, 2 + local_rank, local_rank, 4, 2), group, restart_count=3, own=own or {}
    )


def test_b_004_09_there_is_every_variable_and_no_other() -> None:
    assert environment() == {
        "RANK": "3",
        "LOCAL_RANK": "1",
        "ROLE_RANK": "1",
        "GROUP_RANK": "1",
        "WORLD_SIZE": "4",
        "LOCAL_WORLD_SIZE": "2",
        "ROLE_WORLD_SIZE": "2",
        "GROUP_WORLD_SIZE": "2",
        "ROLE_NAME": "ps",
        "MASTER_ADDR": "host",
        "MASTER_PORT": "29511",
        "TORCHELASTIC_RESTART_COUNT": "3",
        "TORCHELASTIC_MAX_RESTARTS": "7",
        "TORCHELASTIC_RUN_ID": "run",
        "TORCHELASTIC_USE_AGENT_STORE": "False",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
    }


@pytest.mark.parametrize(
    "name",
    ["TORCH_NCCL_ASYNC_ERROR_HANDLING", "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "TORCHELASTIC_TIMER_FILE"],
)
def test_b_004_09_agents_own_value_counts_when_it_is_set(name: str) -> None:
    assert environment(own={name: "0"})[name] == "0"


@pytest.mark.parametrize(
    ("own", "device"),
    [
        pytest.param({}, "1", id="no list"),
        pytest.param({"CUDA_VISIBLE_DEVICES": "4, GPU-7 ,9"}, "GPU-7", id="of the agent's list, without spaces"),
    ],
)
def test_b_004_09_virtual_local_rank_is_0_with_one_device(own: dict[str, str], device: str) -> None:
    found = environment(own=own, virtual_local_rank=True)
    assert (found["LOCAL_RANK"], found["CUDA_VISIBLE_DEVICES"], found["RANK"]) == ("0", device, "3")


def test_b_004_09_device_list_that_is_too_short_is_refused() -> None:
    with pytest.raises(ValueError, match="CUDA_VISIBLE_DEVICES='5' has 1 devices; local rank 1 needs one of its own"):
        environment(own={"CUDA_VISIBLE_DEVICES": "5"}, virtual_local_rank=True)

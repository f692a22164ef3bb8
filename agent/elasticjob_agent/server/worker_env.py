"""Environment variables of a worker, with the values that torchrun sets.

They are added to the agent's own environment. Values that are equal for all workers of a round must be equal on all
nodes. So they come from the group, which every node fills from one rendezvous.
"""

from collections.abc import Mapping

from elasticjob_agent.server.types import Worker, WorkerGroup

_PASSED_ON = ("OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "TORCHELASTIC_TIMER_FILE")
_NCCL = "TORCH_NCCL_ASYNC_ERROR_HANDLING"


def worker_environment(
    worker: Worker, group: WorkerGroup, *, restart_count: int, own: Mapping[str, str]
) -> dict[str, str]:
    """Return the variables of `worker`; `own` is the agent's environment.

    Raises:
        ValueError: CUDA_VISIBLE_DEVICES has too few devices.
    """
    spec = group.spec
    handler = spec.rdzv_handler
    variables = {
        "LOCAL_RANK": str(worker.local_rank),
        "RANK": str(worker.global_rank),
        "GROUP_RANK": str(group.group_rank),
        "ROLE_RANK": str(worker.role_rank),
        "ROLE_NAME": spec.role,
        "LOCAL_WORLD_SIZE": str(spec.local_world_size),
        "WORLD_SIZE": str(worker.world_size),
        "GROUP_WORLD_SIZE": str(group.group_world_size),
        "ROLE_WORLD_SIZE": str(worker.role_world_size),
        "MASTER_ADDR": str(group.master_addr),
        "MASTER_PORT": str(group.master_port),
        "TORCHELASTIC_RESTART_COUNT": str(restart_count),
        "TORCHELASTIC_MAX_RESTARTS": str(spec.max_restarts),
        "TORCHELASTIC_RUN_ID": "" if handler is None else handler.get_run_id(),
        "TORCHELASTIC_USE_AGENT_STORE": str(handler is not None and handler.use_agent_store),
        _NCCL: own.get(_NCCL, "1"),
        **{name: own[name] for name in _PASSED_ON if name in own},
    }
    if spec.virtual_local_rank:
        variables |= _one_device(worker.local_rank, own.get("CUDA_VISIBLE_DEVICES"))
    return variables


def _one_device(local_rank: int, visible: str | None) -> dict[str, str]:
    """Return the variables of a worker with one device only, which is local rank 0 with it."""
    if visible is None:
        return {"LOCAL_RANK": "0", "CUDA_VISIBLE_DEVICES": str(local_rank)}
    devices = [device.strip() for device in visible.split(",")]
    if local_rank >= len(devices):
        raise ValueError(
            f"CUDA_VISIBLE_DEVICES={visible!r} has {len(devices)} devices; local rank {local_rank} needs one of its own"
        )
    return {"LOCAL_RANK": "0", "CUDA_VISIBLE_DEVICES": devices[local_rank]}

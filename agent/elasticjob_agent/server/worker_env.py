"""The variables of a worker of an agent in torch's form.

They are added to the agent's own environment. Values that are equal for all workers of a round must be equal on all
nodes. So they come from the group, which every node fills from one rendezvous.
"""

from collections.abc import Mapping

from elasticjob_agent.server.types import Worker, WorkerGroup
from elasticjob_agent.workers.torchrun_env import TorchrunVariables, visible_device

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
    if group.group_rank is None or group.group_world_size is None or group.master_port is None:
        raise AssertionError("workers are started after a rendezvous only")
    variables = TorchrunVariables(
        rank=worker.global_rank,
        local_rank=0 if spec.virtual_local_rank else worker.local_rank,
        group_rank=group.group_rank,
        role_rank=worker.role_rank,
        role=spec.role,
        world_size=worker.world_size,
        local_world_size=spec.local_world_size,
        group_world_size=group.group_world_size,
        role_world_size=worker.role_world_size,
        master_addr=str(group.master_addr),
        master_port=group.master_port,
        restart_count=restart_count,
        max_restarts=spec.max_restarts,
        run_id="" if handler is None else handler.get_run_id(),
        use_agent_store=handler is not None and handler.use_agent_store,
    )
    passed_on = {name: own[name] for name in _PASSED_ON if name in own}
    if spec.virtual_local_rank:
        passed_on["CUDA_VISIBLE_DEVICES"] = _own_device(own.get("CUDA_VISIBLE_DEVICES"), worker.local_rank)
    return {**variables.environment(), _NCCL: own.get(_NCCL, "1"), **passed_on}


def _own_device(visible: str | None, local_rank: int) -> str:
    device = visible_device(visible, local_rank)
    if device is None:
        count = len((visible or "").split(","))
        raise ValueError(
            f"CUDA_VISIBLE_DEVICES={visible!r} has {count} devices; local rank {local_rank} needs one of its own"
        )
    return device

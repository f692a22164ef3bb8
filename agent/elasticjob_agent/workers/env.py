"""The environment of a worker: the container's own variables, torchrun's contract, and a few of elasticjob.

Each variable of torchrun has the same value as in torchrun, so a script sees no difference. Variables that configure
only the agent (where its keys and logs are) are removed. So are variables of the libraries in the agent's process.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from elasticjob_agent.rendezvous.protocol.ranks import Assignment
from elasticjob_api import constants

_AGENT_ONLY = {
    constants.ENV_PREFIX,
    constants.ENV_ENDPOINTS,
    constants.ENV_ETCD_TLS,
    constants.ENV_LOG_DIR,
    constants.ENV_TERMINATION_LOG,
    constants.ENV_TRACE,
    constants.ENV_LOG_LEVEL,
}
_AGENT_ONLY_PREFIXES = ("GRPC_", "PROTOCOL_BUFFERS_")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerPaths:
    """Files of one worker."""

    error_file: str
    progress: str


def worker_environment(
    base: Mapping[str, str],
    assignment: Assignment,
    *,
    local_rank: int,
    run_id: str,
    max_restarts: int,
    paths: WorkerPaths,
    virtual: bool = False,
) -> dict[str, str]:
    """Return the environment of worker `local_rank`; `base` is the environment in which the agent was started."""
    inherited = {
        name: value
        for name, value in base.items()
        if name not in _AGENT_ONLY and not name.startswith(_AGENT_ONLY_PREFIXES)
    }
    inherited.setdefault("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1")
    if assignment.nproc > 1:
        inherited.setdefault("OMP_NUM_THREADS", "1")
    if virtual:
        inherited["CUDA_VISIBLE_DEVICES"] = _device_of_rank(base.get("CUDA_VISIBLE_DEVICES"), local_rank)
    return {
        **inherited,
        "RANK": str(assignment.base_rank + local_rank),
        "LOCAL_RANK": "0" if virtual else str(local_rank),
        "GROUP_RANK": str(assignment.group_rank),
        "ROLE_RANK": str(assignment.role_base_rank + local_rank),
        "ROLE_NAME": assignment.role,
        "WORLD_SIZE": str(assignment.world_size),
        "LOCAL_WORLD_SIZE": str(assignment.nproc),
        "GROUP_WORLD_SIZE": str(assignment.group_world_size),
        "ROLE_WORLD_SIZE": str(assignment.role_world_size),
        "MASTER_ADDR": assignment.master_addr,
        "MASTER_PORT": str(assignment.master_port),
        "TORCHELASTIC_RESTART_COUNT": str(assignment.restart_count),
        "TORCHELASTIC_MAX_RESTARTS": str(max_restarts),
        "TORCHELASTIC_RUN_ID": run_id,
        # With True, torch expects the agent's store server at MASTER_PORT; with False, rank 0 opens one there.
        "TORCHELASTIC_USE_AGENT_STORE": "False",
        "TORCHELASTIC_ERROR_FILE": paths.error_file,
        constants.ENV_ROUND: str(assignment.round),
        constants.ENV_PROGRESS: paths.progress,
    }


def _device_of_rank(visible: str | None, local_rank: int) -> str:
    """Return the one device that this worker sees, as its device 0; empty if the list of devices is too short."""
    if visible is None:
        return str(local_rank)
    devices = [device.strip() for device in visible.split(",")]
    return devices[local_rank] if local_rank < len(devices) else ""


def worker_arguments(arguments: tuple[str, ...], local_rank: int) -> tuple[str, ...]:
    """Return the arguments with torchrun's macro `${local_rank}` replaced; all other text stays verbatim."""
    return tuple(argument.replace("${local_rank}", str(local_rank)) for argument in arguments)

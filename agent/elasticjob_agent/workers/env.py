"""The environment of a worker: the container's own variables, torchrun's contract, and a few of elasticjob.

Variables that configure only the agent (where its keys and logs are) are removed. So are variables of the libraries in
the agent's process.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from elasticjob_agent.rendezvous.protocol.ranks import Assignment
from elasticjob_agent.workers import torchrun_env
from elasticjob_agent.workers.torchrun_env import TorchrunVariables, visible_device
from elasticjob_api import constants

_AGENT_ONLY = {
    constants.ENV_PREFIX,
    constants.ENV_ENDPOINTS,
    constants.ENV_ETCD_TLS,
    constants.ENV_LOG_DIR,
    constants.ENV_TERMINATION_LOG,
    constants.ENV_WARM_START,
    constants.ENV_TRACE,
    constants.ENV_LOG_LEVEL,
    constants.ENV_KEEP_DIR,
    constants.ENV_KEEP_SIZE_LIMIT,
    constants.ENV_KEEP_COPIES,
    constants.ENV_KEEP_BANDWIDTH,
    constants.ENV_KEEP_RESTORE_TIMEOUT,
    constants.ENV_KEEP_PERSIST_TO,
    constants.ENV_KEEP_PERSIST_EVERY,
    constants.ENV_KEEP_PERSIST_KEEP,
    constants.ENV_KEEP_RESUME,
    constants.ENV_KEEP_PERSISTED,
}
_OF_KEPT_STEPS = frozenset({constants.ENV_KEEP, constants.ENV_KEPT, constants.ENV_KEPT_STEP})
"""Never inherited: an agent may itself be a worker of a job that keeps steps."""
_AGENT_ONLY_PREFIXES = ("GRPC_", "PROTOCOL_BUFFERS_")


_ERROR_FILE = "TORCHELASTIC_ERROR_FILE"


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
    kept_steps: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the environment of worker `local_rank`; `base` is the environment in which the agent was started.

    `kept_steps` are the variables of Keep in this round.
    """
    inherited = {
        name: value
        for name, value in base.items()
        if name not in _AGENT_ONLY | _OF_KEPT_STEPS and not name.startswith(_AGENT_ONLY_PREFIXES)
    }
    inherited.setdefault("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1")
    if assignment.nproc > 1:
        inherited.setdefault("OMP_NUM_THREADS", "1")
    if virtual:
        # A list that is too short leaves the worker without a device.
        inherited["CUDA_VISIBLE_DEVICES"] = visible_device(base.get("CUDA_VISIBLE_DEVICES"), local_rank) or ""
    variables = TorchrunVariables(
        rank=assignment.base_rank + local_rank,
        local_rank=0 if virtual else local_rank,
        group_rank=assignment.group_rank,
        role_rank=assignment.role_base_rank + local_rank,
        role=assignment.role,
        world_size=assignment.world_size,
        local_world_size=assignment.nproc,
        group_world_size=assignment.group_world_size,
        role_world_size=assignment.role_world_size,
        master_addr=assignment.master_addr,
        master_port=assignment.master_port,
        restart_count=assignment.restart_count,
        max_restarts=max_restarts,
        run_id=run_id,
    )
    return {
        **inherited,
        **variables.environment(),
        _ERROR_FILE: paths.error_file,
        constants.ENV_ROUND: str(assignment.round),
        constants.ENV_PROGRESS: paths.progress,
        **(kept_steps or {}),
    }


def varying_variables(*, virtual: bool) -> frozenset[str]:
    """Return the names of the variables that differ between ranks or rounds of one job."""
    devices = {"CUDA_VISIBLE_DEVICES"} if virtual else set()
    own = {_ERROR_FILE, constants.ENV_ROUND, constants.ENV_PROGRESS}
    return torchrun_env.NAMES | devices | own | _OF_KEPT_STEPS

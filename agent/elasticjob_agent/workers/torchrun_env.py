"""The variables that torchrun gives each worker: one table for pods, the command line and agents in torch's form.

`launch/_env.py` has the six that torch.distributed needs: a launch has no groups, roles or restarts, and torchrun's
`TORCHELASTIC_` variables would be false there.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchrunVariables:
    """The place of one worker in its round, as a script reads it from its environment."""

    rank: int
    local_rank: int
    group_rank: int
    role_rank: int
    role: str
    world_size: int
    local_world_size: int
    group_world_size: int
    role_world_size: int
    master_addr: str
    master_port: int
    restart_count: int
    max_restarts: int
    run_id: str
    use_agent_store: bool = False
    """Whether torch expects a store server at MASTER_PORT. Without one rank 0 opens its own there."""

    def environment(self) -> dict[str, str]:
        """Return the variables by name."""
        return {
            "RANK": str(self.rank),
            "LOCAL_RANK": str(self.local_rank),
            "GROUP_RANK": str(self.group_rank),
            "ROLE_RANK": str(self.role_rank),
            "ROLE_NAME": self.role,
            "WORLD_SIZE": str(self.world_size),
            "LOCAL_WORLD_SIZE": str(self.local_world_size),
            "GROUP_WORLD_SIZE": str(self.group_world_size),
            "ROLE_WORLD_SIZE": str(self.role_world_size),
            "MASTER_ADDR": self.master_addr,
            "MASTER_PORT": str(self.master_port),
            "TORCHELASTIC_RESTART_COUNT": str(self.restart_count),
            "TORCHELASTIC_MAX_RESTARTS": str(self.max_restarts),
            "TORCHELASTIC_RUN_ID": self.run_id,
            "TORCHELASTIC_USE_AGENT_STORE": str(self.use_agent_store),
        }


NAMES = frozenset(
    {
        "RANK",
        "LOCAL_RANK",
        "GROUP_RANK",
        "ROLE_RANK",
        "ROLE_NAME",
        "WORLD_SIZE",
        "LOCAL_WORLD_SIZE",
        "GROUP_WORLD_SIZE",
        "ROLE_WORLD_SIZE",
        "MASTER_ADDR",
        "MASTER_PORT",
        "TORCHELASTIC_RESTART_COUNT",
        "TORCHELASTIC_MAX_RESTARTS",
        "TORCHELASTIC_RUN_ID",
        "TORCHELASTIC_USE_AGENT_STORE",
    }
)
"""The variables of `TorchrunVariables.environment`."""


def visible_device(visible: str | None, local_rank: int) -> str | None:
    """Return the one device of a worker that is local rank 0 on it; None if CUDA_VISIBLE_DEVICES has too few."""
    if visible is None:
        return str(local_rank)
    devices = [device.strip() for device in visible.split(",")]
    return devices[local_rank] if local_rank < len(devices) else None

"""Environment variables of each worker of a launch, and validation of a launch's size."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchTopology:
    """This node among the nodes of a launch."""

    nprocs: int
    """Number of workers on each node."""
    nnodes: int = 1
    node_rank: int = 0

    def validate(self, master_port: int | None) -> None:
        """Raise ValueError with the wrong argument and its allowed values."""
        if self.nprocs < 0:
            raise ValueError(f"nprocs is {self.nprocs}; it must be 0 or more")
        if self.nnodes < 1:
            raise ValueError(f"nnodes is {self.nnodes}; it must be 1 or more")
        if not 0 <= self.node_rank < self.nnodes:
            raise ValueError(f"node_rank is {self.node_rank}; with nnodes={self.nnodes} it is 0 to {self.nnodes - 1}")
        if master_port is None and self.nnodes > 1:
            raise ValueError(f"master_port is needed with nnodes={self.nnodes}: give the same one on all nodes")


def worker_variables(
    topology: LaunchTopology, local_rank: int, *, master_addr: str, master_port: int
) -> dict[str, str]:
    """Return the variables that torch.distributed needs; the worker inherits all others."""
    return {
        "WORLD_SIZE": str(topology.nnodes * topology.nprocs),
        "RANK": str(topology.node_rank * topology.nprocs + local_rank),
        "LOCAL_RANK": str(local_rank),
        "LOCAL_WORLD_SIZE": str(topology.nprocs),
        "MASTER_ADDR": master_addr,
        "MASTER_PORT": str(master_port),
    }

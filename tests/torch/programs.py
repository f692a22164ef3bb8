"""Programs that the tests run in a Python with torch: our Python API with torch's own objects.

python programs.py NAME [ARGUMENT…]
"""

import sys
import tempfile
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.elastic.rendezvous import (
    RendezvousGracefulExitError,
    RendezvousHandler,
    RendezvousParameters,
)
from torch.distributed.elastic.rendezvous.registry import get_rendezvous_handler

from elasticjob_agent.multiprocessing import DefaultLogsSpecs, start_processes
from elasticjob_agent.server import WorkerSpec
from elasticjob_agent.server.local_elastic_agent import LocalElasticAgent


def add_ranks() -> dict[str, Any]:
    """Return the sum over all ranks of rank + 1, as a tensor."""
    dist.init_process_group("gloo")
    value = torch.tensor([dist.get_rank() + 1.0])
    dist.all_reduce(value)
    dist.destroy_process_group()
    return {"sum": value}


def agent_of(handler: Any) -> LocalElasticAgent:
    """Return an agent with one worker that adds ranks."""
    spec = WorkerSpec(
        role="worker",
        local_world_size=1,
        entrypoint=add_ranks,
        rdzv_handler=handler,
        max_restarts=0,
        monitor_interval=1,
    )
    return LocalElasticAgent(spec, DefaultLogsSpecs())


def run_over_c10d(endpoint: str, is_host: str) -> None:
    """Run one of two agents over torch's own rendezvous."""
    parameters = RendezvousParameters("c10d", endpoint, "run", 2, 2, is_host=is_host)
    result = agent_of(get_rendezvous_handler(parameters)).run()
    print(result.state.name, [float(value["sum"]) for value in result.return_values.values()])


class Leaving(RendezvousHandler):  # type: ignore[misc]  # mypy runs without torch
    """A rendezvous that refuses this node."""

    def next_rendezvous(self) -> Any:
        """Raise as torch's handlers do for a node too many."""
        raise RendezvousGracefulExitError("one too many")

    def get_backend(self) -> str:
        """Return its name."""
        return "leaving"

    def get_run_id(self) -> str:
        """Return the run id."""
        return "run"

    def is_closed(self) -> bool:
        """Return False: it is never closed."""
        return False

    def set_closed(self) -> None:
        """Do nothing."""

    def num_nodes_waiting(self) -> int:
        """Return 0."""
        return 0

    def shutdown(self) -> bool:
        """Return True; there is nothing to release."""
        return True


def leave() -> None:
    """Run an agent that torch's rendezvous refuses."""
    print(agent_of(Leaving()).run().state.name)


def make_tensor(size: int) -> dict[str, Any]:
    """Return a tensor of ones."""
    return {"loss": torch.ones(size)}


def return_tensors(method: str) -> None:
    """Run functions that return a small and a large tensor."""
    context = start_processes(
        "t", make_tensor, {0: (1,), 1: (1_000_000,)}, None, log_dir=tempfile.mkdtemp(), start_method=method
    )
    result = context.wait(120)
    assert result is not None
    print(result.failures, [float(value["loss"].sum()) for value in result.return_values.values()])


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])

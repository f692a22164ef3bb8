"""What a Python with torch runs for the tests beside it: our Python API, with objects of torch's own.

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
    """The sum over all ranks of rank + 1, as a tensor."""
    dist.init_process_group("gloo")
    value = torch.tensor([dist.get_rank() + 1.0])
    dist.all_reduce(value)
    dist.destroy_process_group()
    return {"sum": value}


def agent_of(handler: Any) -> LocalElasticAgent:
    """One worker that adds ranks."""
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
    """One of two agents over torch's own rendezvous."""
    parameters = RendezvousParameters("c10d", endpoint, "run", 2, 2, is_host=is_host)
    result = agent_of(get_rendezvous_handler(parameters)).run()
    print(result.state.name, [float(value["sum"]) for value in result.return_values.values()])


class Leaving(RendezvousHandler):  # type: ignore[misc]  # torch is not there for mypy
    """A rendezvous that has no place for this node."""

    def next_rendezvous(self) -> Any:
        """As torch's do where a node is one too many."""
        raise RendezvousGracefulExitError("one too many")

    def get_backend(self) -> str:
        """Its name."""
        return "leaving"

    def get_run_id(self) -> str:
        """The run's."""
        return "run"

    def is_closed(self) -> bool:
        """Never."""
        return False

    def set_closed(self) -> None:
        """Nothing to close."""

    def num_nodes_waiting(self) -> int:
        """None."""
        return 0

    def shutdown(self) -> bool:
        """Nothing to let go of."""
        return True


def leave() -> None:
    """An agent that torch's rendezvous sends away."""
    print(agent_of(Leaving()).run().state.name)


def make_tensor(size: int) -> dict[str, Any]:
    """Ones."""
    return {"loss": torch.ones(size)}


def return_tensors(method: str) -> None:
    """Functions that return tensors, small and large."""
    context = start_processes(
        "t", make_tensor, {0: (1,), 1: (1_000_000,)}, None, log_dir=tempfile.mkdtemp(), start_method=method
    )
    result = context.wait(120)
    assert result is not None
    print(result.failures, [float(value["loss"].sum()) for value in result.return_values.values()])


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])

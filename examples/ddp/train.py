"""Data-parallel training with torch's own means alone: nothing here knows of elasticjob, or of torchrun.

A small network learns the sum of its inputs, on the CPU over gloo. All ranks agree on gradients by
DistributedDataParallel; rank 0 saves a checkpoint every few steps, and whoever starts goes on from the last one. That
is all a script needs to survive the loss of workers and nodes, and their coming.
"""

import argparse
import os
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

FEATURES = 8
BATCH = 64


def load(path: Path, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """The step to go on from; 0 without a checkpoint."""
    if not path.exists():
        return 0
    state: dict[str, Any] = torch.load(path)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return int(state["step"])


def save(path: Path, step: int, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Whole or not at all: a process may be killed in the middle."""
    draft = path.with_suffix(f".{os.getpid()}")
    torch.save({"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, draft)
    draft.replace(path)


def train(options: argparse.Namespace) -> None:
    """From the last checkpoint to the last step."""
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    network = torch.nn.Linear(FEATURES, 1)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05)
    first = load(options.checkpoint, network, optimizer)
    model = DistributedDataParallel(network)
    print(f"rank {rank} of {world} begins at step {first}", flush=True)
    for step in range(first, options.steps):
        data = torch.randn(BATCH, FEATURES, generator=torch.Generator().manual_seed(step * 1000 + rank))
        loss = torch.nn.functional.mse_loss(model(data), data.sum(dim=1, keepdim=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0 and (step + 1) % options.save_every == 0:
            save(options.checkpoint, step + 1, network, optimizer)
        print(f"rank {rank} of {world} step {step + 1} loss {loss.item():.4f}", flush=True)
        time.sleep(options.pause)


def main() -> None:
    """Read the options, form the group that the environment describes, train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--save-every", type=int, default=5)
    parser.add_argument("--pause", type=float, default=0.0, help="seconds after each step")
    parser.add_argument("--checkpoint", type=Path, default=Path("checkpoint.pt"))
    options = parser.parse_args()
    dist.init_process_group("gloo")
    train(options)
    dist.barrier()
    dist.destroy_process_group()
    print(f"done after {options.steps} steps", flush=True)


if __name__ == "__main__":
    main()

"""Fully sharded training (FSDP2) with distributed checkpoints (DCP), on CPUs: nothing here knows of elasticjob.

Every rank holds a shard of parameters and optimizer. All ranks write a checkpoint together, and any number of them can
read it: after a change of size each takes its new shard. Only a complete checkpoint counts: its folder gets its name
when all have written.

Where ELASTICJOB_KEEP is set, each rank also publishes its part of a checkpoint there, more often than to disk. After a
start ELASTICJOB_KEPT then has all parts of the newest step that survived in memory, whatever the number of ranks is.
"""

import argparse
import os
import shutil
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

FEATURES = 16
BATCH = 32


def network() -> torch.nn.Module:
    """Return two layers, each sharded over all ranks."""
    torch.manual_seed(0)
    made = torch.nn.Sequential(torch.nn.Linear(FEATURES, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in made:
        if isinstance(layer, torch.nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(made, mesh=mesh)
    return made


def newest(folder: Path) -> Path | None:
    """Return the last complete checkpoint."""
    return max(folder.glob("step-*"), default=None)


def load(folder: Path, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """Return the step to continue from; 0 without a checkpoint. Rank 0 decides for all."""
    found = [newest(folder)]
    dist.broadcast_object_list(found, src=0)
    chosen = found[0]
    on_disk = 0 if chosen is None else int(chosen.name.rpartition("-")[2])
    kept = os.environ.get("ELASTICJOB_KEPT")  # the same step on all ranks, or none
    if kept and int(os.environ["ELASTICJOB_KEPT_STEP"]) > on_disk:
        chosen = Path(kept)
    if chosen is None:
        return 0
    weights, moments = get_state_dict(model, optimizer)
    state = {"model": weights, "optimizer": moments, "step": 0}
    dcp.load(state, checkpoint_id=chosen)
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    return int(state["step"])


def save(folder: Path, step: int, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Write with all ranks; then rank 0 names the folder and deletes all but the last two."""
    draft = folder / f"writing-{step:08}"
    weights, moments = get_state_dict(model, optimizer)
    dcp.save({"model": weights, "optimizer": moments, "step": step}, checkpoint_id=draft)
    dist.barrier()
    if dist.get_rank() == 0:
        draft.replace(folder / f"step-{step:08}")
        for old in sorted(folder.glob("step-*"))[:-2]:
            shutil.rmtree(old)


def may_publish() -> bool:
    """Return whether all nodes keep steps in memory: the ranks write a step together."""
    has = torch.tensor(int("ELASTICJOB_KEEP" in os.environ))
    dist.all_reduce(has, dist.ReduceOp.MIN)
    return bool(has)


def publish(step: int, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Publish the part of this rank. It gets its name when all have written."""
    keep, part = Path(os.environ["ELASTICJOB_KEEP"]), f"{dist.get_rank()}-of-{dist.get_world_size()}"
    draft = keep / f"writing-{step}.{part}"
    weights, moments = get_state_dict(model, optimizer)
    writer = dcp.FileSystemWriter(draft, sync_files=False)
    try:
        dcp.save({"model": weights, "optimizer": moments, "step": step}, storage_writer=writer)
        draft.rename(keep / f"step-{step}.{part}")  # from now on it is not the script's any more
    except (OSError, dcp.CheckpointException):  # one of the nodes has no room: all ranks train on without this step
        shutil.rmtree(draft, ignore_errors=True)


def train(options: argparse.Namespace) -> None:
    """Train from the last checkpoint to the last step."""
    rank, world = dist.get_rank(), dist.get_world_size()
    options.folder.mkdir(parents=True, exist_ok=True)
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    first, publishes = load(options.folder, model, optimizer), may_publish()
    print(f"rank {rank} of {world} begins at step {first}", flush=True)
    for step in range(first, options.steps):
        data = torch.randn(BATCH, FEATURES, generator=torch.Generator().manual_seed(step * 1000 + rank))
        loss = torch.nn.functional.mse_loss(model(data), data.sum(dim=1, keepdim=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if publishes and (step + 1) % options.keep_every == 0:
            publish(step + 1, model, optimizer)
        if (step + 1) % options.save_every == 0:
            save(options.folder, step + 1, model, optimizer)
            if rank == 0:
                print(f"step {step + 1} loss {loss.item():.4f}", flush=True)
        time.sleep(options.pause)
    print(f"rank {rank}: done after {options.steps} steps", flush=True)


def main() -> int:
    """Read the options, form the group that the environment describes, train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--save-every", type=int, default=10)
    parser.add_argument("--keep-every", type=int, default=5, help="steps between two that are kept in memory")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds after each step")
    parser.add_argument("--folder", type=Path, default=Path("checkpoints"))
    options = parser.parse_args()
    dist.init_process_group("gloo")
    train(options)
    dist.barrier()
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())

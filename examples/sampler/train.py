"""Training with the same result at any number of ranks: DistributedDataParallel or FSDP2 (fully_shard), on CPUs.

The sampler cuts each global batch into micro-batches for the ranks that are there. So the number of trained steps is
all that a checkpoint needs besides parameters and optimizer. Every few steps all ranks write a distributed checkpoint
(DCP). After a start they continue from the newest one, however many ranks wrote it.

Where ELASTICJOB_KEEP is set, each rank also publishes its part of a checkpoint there, more often than to disk. After a
start ELASTICJOB_KEPT then has all parts of the newest step that survived in memory, whatever the number of ranks is.
"""

import argparse
import contextlib
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_state_dict,
    set_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

try:
    from elasticjob_agent.sampler import ElasticBatchSampler
except ImportError:
    # A copy of the file is beside this one.
    from elasticjob_sampler import ElasticBatchSampler  # type: ignore[no-redef]

FEATURES = 8
OLD_CHECKPOINTS = 2

Observe = Callable[[int, list[int]], None]
"""A function that is called after each step with its number and the samples of this rank."""


class Rows(Dataset):  # type: ignore[misc]  # mypy runs without torch
    """Made-up rows: each depends on its index alone, as in a data set on disk."""

    def __init__(self, size: int, dtype: torch.dtype) -> None:
        self._size = size
        self._dtype = dtype

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, index: int) -> tuple[int, torch.Tensor, torch.Tensor]:
        row = torch.randn(FEATURES, generator=torch.Generator().manual_seed(index), dtype=torch.float64)
        target = torch.sin(row).sum(dim=0, keepdim=True)
        return index, row.to(self._dtype), target.to(self._dtype)


def network(parallel: str, dtype: torch.dtype) -> torch.nn.Module:
    """Return two layers with the same first parameters in each round: sharded, replicated, or of one process."""
    torch.manual_seed(0)
    made = torch.nn.Sequential(torch.nn.Linear(FEATURES, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1)).to(dtype)
    if parallel == "ddp":
        return DistributedDataParallel(made)
    if parallel == "fsdp":
        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
        for layer in (made[0], made[2], made):
            fully_shard(layer, mesh=mesh)
    return made


def accumulate(model: torch.nn.Module, *, is_last: bool) -> contextlib.AbstractContextManager[None]:
    """Return the context of one micro-batch: gradients are synchronized in the last one only."""
    if isinstance(model, FSDPModule):
        model.set_requires_gradient_sync(is_last)
    elif isinstance(model, DistributedDataParallel) and not is_last:
        no_sync: contextlib.AbstractContextManager[None] = model.no_sync()
        return no_sync
    return contextlib.nullcontext()


@dataclass
class Training:
    """The objects that a step changes, and those that choose its samples."""

    folder: Path
    model: torch.nn.Module
    optimizer: torch.optim.Optimizer
    sampler: ElasticBatchSampler
    loader: DataLoader
    publishes: bool
    """Whether all nodes keep steps in memory."""
    step: int = 0
    """The number of trained steps."""

    def state(self) -> dict[str, Any]:
        """Return all that is kept: parameters, optimizer, and the number of trained steps."""
        weights, moments = get_state_dict(self.model, self.optimizer)
        return {"model": weights, "optimizer": moments, "step": self.step}


def newest(folder: Path) -> Path | None:
    """Return the newest complete checkpoint, on disk or in memory. Rank 0 decides for all which one is on disk."""
    found = [max(folder.glob("step-*"), default=None)]
    dist.broadcast_object_list(found, src=0)
    on_disk = 0 if found[0] is None else int(found[0].name.rpartition("-")[2])
    kept = os.environ.get("ELASTICJOB_KEPT")  # the same step on all ranks, or none
    if kept and int(os.environ["ELASTICJOB_KEPT_STEP"]) > on_disk:
        return Path(kept)
    return found[0]


def load(training: Training) -> None:
    """Continue from the newest checkpoint, if there is one."""
    found = newest(training.folder)
    if found is None:
        return
    state = training.state()
    dcp.load(state, storage_reader=dcp.FileSystemReader(found))
    model, moments = state["model"], state["optimizer"]
    set_state_dict(training.model, training.optimizer, model_state_dict=model, optim_state_dict=moments)
    training.step = int(state["step"])


def save(training: Training) -> None:
    """Write a checkpoint with all ranks. It is complete when it has its name, whichever process is killed."""
    draft = training.folder / f"draft-{training.step}"
    dcp.save(training.state(), storage_writer=dcp.FileSystemWriter(draft))
    if dist.get_rank() == 0:  # rank 0 finishes the save, so all files are there
        draft.rename(training.folder / f"step-{training.step:08}")
        for old in sorted(training.folder.glob("step-*"))[:-OLD_CHECKPOINTS]:
            shutil.rmtree(old)


def may_publish() -> bool:
    """Return whether all nodes keep steps in memory: the ranks write a step together."""
    has = torch.tensor(int("ELASTICJOB_KEEP" in os.environ))
    dist.all_reduce(has, dist.ReduceOp.MIN)
    return bool(has)


def publish(training: Training) -> None:
    """Write the part of this rank into memory. Without room for it, training continues without this step."""
    keep, part = Path(os.environ["ELASTICJOB_KEEP"]), f"{dist.get_rank()}-of-{dist.get_world_size()}"
    draft = keep / f"draft-{training.step}.{part}"
    try:
        dcp.save(training.state(), storage_writer=dcp.FileSystemWriter(draft, sync_files=False))
        draft.rename(keep / f"step-{training.step}.{part}")
    except (OSError, dcp.CheckpointException):
        shutil.rmtree(draft, ignore_errors=True)


def train_epoch(training: Training, save_every: int, keep_every: int, observe: Observe) -> None:
    """Train from the present step to the end of its epoch."""
    training.sampler.set_step(training.step)
    samples: list[int] = []
    for micro, (indices, rows, targets) in zip(training.sampler.micro_batches(), training.loader, strict=True):
        with accumulate(training.model, is_last=micro.is_last):
            loss = mse_loss(training.model(rows), targets) * micro.scale
            loss.backward()
        samples += indices.tolist() if micro.scale else []
        if micro.is_last:
            training.optimizer.step()
            training.optimizer.zero_grad()
            training.step += 1
            observe(training.step, samples)
            samples = []
            if training.publishes and training.step % keep_every == 0:
                publish(training)
            if training.step % save_every == 0:
                save(training)


def train(options: argparse.Namespace, observe: Observe) -> None:
    """Train from the newest checkpoint to the last epoch."""
    rank, world, dtype = dist.get_rank(), dist.get_world_size(), getattr(torch, options.dtype)
    model = network(options.parallel, dtype)
    sampler = ElasticBatchSampler(
        options.samples, options.global_batch, options.micro_batch, num_replicas=world, rank=rank, seed=options.seed
    )
    data = Rows(options.samples, dtype)
    loader = DataLoader(
        data, batch_sampler=sampler, num_workers=options.loaders, persistent_workers=options.loaders > 0
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    training = Training(options.folder, model, optimizer, sampler, loader, may_publish())
    load(training)
    print(f"rank {rank} of {world} begins at step {training.step}", flush=True)
    while training.step < options.epochs * sampler.steps_per_epoch:
        train_epoch(training, options.save_every, options.keep_every, observe)
    write_result(options.folder, model, data)
    print(f"rank {rank}: done after {training.step} steps", flush=True)


def write_result(folder: Path, model: torch.nn.Module, data: Rows) -> None:
    """Write the parameters, and the loss over all samples, to `result.json`."""
    with torch.no_grad():
        _, rows, targets = zip(*(data[index] for index in range(len(data))), strict=True)
        loss = mse_loss(model(torch.stack(rows)), torch.stack(targets)).item()
    weights = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    if dist.get_rank() == 0:
        parameters = {name: value.flatten().tolist() for name, value in weights.items()}
        (folder / "result.json").write_text(json.dumps({"loss": loss, "parameters": parameters}))


def main(arguments: list[str] | None = None, observe: Observe = lambda _step, _samples: None) -> None:
    """Read the options, form the group that the environment describes, train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parallel", choices=("ddp", "fsdp", "none"), default="ddp", help="none: one process alone")
    parser.add_argument("--dtype", choices=("float64", "float32"), default="float64")
    parser.add_argument("--samples", type=int, default=417)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--global-batch", type=int, default=26, help="samples of one step, on all ranks together")
    parser.add_argument("--micro-batch", type=int, default=5, help="samples that one rank computes at once, at most")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--loaders", type=int, default=1, help="processes that load data, for each rank")
    parser.add_argument("--save-every", type=int, default=20, help="steps between checkpoints")
    parser.add_argument("--keep-every", type=int, default=5, help="steps between two that are kept in memory")
    parser.add_argument("--folder", type=Path, default=Path("checkpoints"))
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    dist.init_process_group("gloo")
    train(options, observe)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

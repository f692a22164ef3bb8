"""Data-parallel training with torch's own means alone: nothing here knows of elasticjob, or of torchrun.

A small convolutional network learns to classify ten kinds of images. They are made up like CIFAR's: three colours,
noise over a pattern of the class. It runs on the CPU over gloo. All ranks agree on gradients by
DistributedDataParallel. Every few steps they write a distributed checkpoint (DCP) together. After a start they continue
from the last complete one, however many ranks wrote it. A script needs no more to survive the loss and the arrival of
workers and nodes.

Where ELASTICJOB_KEEP is set, each node also publishes its state there, more often than it writes to disk. After a start
ELASTICJOB_KEPT then has the newest step that survived in memory.
"""

import argparse
import os
import shutil
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.nn.parallel import DistributedDataParallel

CLASSES, COLOURS, SIZE = 10, 3, 16
BATCH = 32
NOISE = 2.0


def images(patterns: torch.Tensor, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a batch that depends on its seed alone, and the classes of its images."""
    generator = torch.Generator().manual_seed(seed)
    classes = torch.randint(CLASSES, (BATCH,), generator=generator)
    return patterns[classes] + NOISE * torch.randn(BATCH, COLOURS, SIZE, SIZE, generator=generator), classes


def network() -> torch.nn.Module:
    """Return two convolutions and a layer over their output."""
    return torch.nn.Sequential(
        torch.nn.Conv2d(COLOURS, 8, 3, stride=2),
        torch.nn.ReLU(),
        torch.nn.Conv2d(8, 16, 3, stride=2),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.LazyLinear(CLASSES),
    )


def load(path: Path, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """Return the step to continue from; 0 without a checkpoint. Rank 0 decides for all."""
    found = [path.resolve() if path.exists() else None]
    dist.broadcast_object_list(found, src=0)
    on_disk = 0 if found[0] is None else int(found[0].name.rpartition("-")[2])
    kept = os.environ.get("ELASTICJOB_KEPT")  # the same step on all ranks, or none
    if kept and int(os.environ["ELASTICJOB_KEPT_STEP"]) > on_disk:
        return restore(Path(kept), model, optimizer)
    if found[0] is None:
        return 0
    weights, moments = get_state_dict(model, optimizer)
    state = {"model": weights, "optimizer": moments, "step": 0}
    dcp.load(state, checkpoint_id=found[0])
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    return int(state["step"])


def save(path: Path, step: int, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Write a folder with all ranks; then rank 0 links `path` to it: it is complete, whichever process is killed."""
    folder = path.with_name(f"{path.name}.step-{step:08}")
    weights, moments = get_state_dict(model, optimizer)
    dcp.save({"model": weights, "optimizer": moments, "step": step}, checkpoint_id=folder)
    if dist.get_rank() == 0:  # rank 0 finishes the save
        draft = path.with_name(f"{path.name}.{os.getpid()}")
        draft.symlink_to(folder.name)
        draft.replace(path)
        for old in sorted(path.parent.glob(f"{path.name}.step-*"))[:-2]:
            shutil.rmtree(old)


def restore(kept: Path, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """Read a step that was published, and return its number."""
    state = torch.load(kept / "state.pt", weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return int(state["step"])


def publish(step: int, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Publish a step once on each node, if the job keeps steps in memory. The name is given when all is written."""
    keep = os.environ.get("ELASTICJOB_KEEP")
    if keep is None or os.environ["LOCAL_RANK"] != "0":
        return
    draft = Path(keep, f"writing-{step}")
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
    try:
        draft.mkdir()
        torch.save(state, draft / "state.pt")
        draft.rename(Path(keep, f"step-{step}"))  # from now on it is not the script's any more
    except (OSError, RuntimeError):  # no room, which torch reports by RuntimeError: train on without this step
        shutil.rmtree(draft, ignore_errors=True)


def train(options: argparse.Namespace) -> None:
    """Train from the last checkpoint to the last step."""
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    patterns = torch.randn(CLASSES, COLOURS, SIZE, SIZE)
    plain = network()
    plain(patterns)  # sets the size of the last layer
    model = DistributedDataParallel(plain)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.5)
    first = load(options.checkpoint, model, optimizer)
    print(f"rank {rank} of {world} begins at step {first}", flush=True)
    for step in range(first, options.steps):
        batch, classes = images(patterns, step * 1000 + rank)
        scores = model(batch)
        loss = torch.nn.functional.cross_entropy(scores, classes)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if (step + 1) % options.keep_every == 0:
            publish(step + 1, model, optimizer)
        if (step + 1) % options.save_every == 0:
            save(options.checkpoint, step + 1, model, optimizer)
        right = (scores.argmax(dim=1) == classes).float().mean().item()
        print(f"rank {rank} of {world} step {step + 1} loss {loss.item():.4f} accuracy {right:.2f}", flush=True)
        time.sleep(options.pause)


def main() -> None:
    """Read the options, form the group that the environment describes, train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--save-every", type=int, default=20)
    parser.add_argument("--keep-every", type=int, default=5, help="steps between two that are kept in memory")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds after each step")
    parser.add_argument("--checkpoint", type=Path, default=Path("checkpoint"))
    options = parser.parse_args()
    dist.init_process_group("gloo")
    train(options)
    dist.barrier()
    dist.destroy_process_group()
    print(f"done after {options.steps} steps", flush=True)


if __name__ == "__main__":
    main()

"""Data-parallel training with JAX's own distributed runtime: nothing here knows of elasticjob.

Every process owns one CPU device; together they are one mesh. A linear model learns the sum of its inputs, each process
feeding its own part of the batch. Process 0 writes the parameters to a file, and each start continues from there. JAX's
runtime ends when a process is lost; the agent starts all processes again in the next round.

Where ELASTICJOB_KEEP is set, each node also publishes the parameters there, more often than to the file. After a start
ELASTICJOB_KEPT then has the newest step that survived in memory.
"""

import argparse
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

FEATURES = 8
BATCH_PER_PROCESS = 32
RATE = 0.05


def load(path: Path) -> tuple[int, np.ndarray]:
    """Return step and parameters to continue from: those of the file, or of a kept step that is newer."""
    step, weights = read(path) if path.exists() else (0, np.zeros(FEATURES, np.float32))
    kept = os.environ.get("ELASTICJOB_KEPT")
    if kept and int(os.environ["ELASTICJOB_KEPT_STEP"]) > step:
        return read(Path(kept, "state.npz"))
    return step, weights


def read(path: Path) -> tuple[int, np.ndarray]:
    """Return step and parameters of a file."""
    with np.load(path) as stored:
        return int(stored["step"]), stored["weights"]


def save(path: Path, step: int, weights: np.ndarray) -> None:
    """Write the file completely or not at all: a process may be killed in the middle."""
    draft = path.with_name(f".{path.stem}.{os.getpid()}.npz")
    np.savez(draft, step=step, weights=weights)
    draft.replace(path)


def publish(step: int, weights: np.ndarray) -> None:
    """Publish a step once on each node, if the job keeps steps in memory. The name is given when all is written."""
    keep = os.environ.get("ELASTICJOB_KEEP")
    if keep is None or os.environ["LOCAL_RANK"] != "0":
        return
    draft = Path(keep, f"writing-{step}")
    try:
        draft.mkdir()
        np.savez(draft / "state.npz", step=step, weights=weights)
        draft.rename(Path(keep, f"step-{step}"))  # from now on it is not the script's any more
    except OSError:  # no room: train on without this step
        shutil.rmtree(draft, ignore_errors=True)


def loss(weights: Any, x: Any, y: Any) -> Any:
    """Return the mean squared error over the whole batch, wherever its parts are."""
    return jnp.mean((x @ weights - y) ** 2)


def train(options: argparse.Namespace) -> None:
    """Train from the last checkpoint to the last step."""
    mesh = Mesh(np.array(jax.devices()), ("data",))
    split = NamedSharding(mesh, PartitionSpec("data"))
    first, start = load(options.checkpoint)
    # All continue from the values that process 0 has read: a file system may show others an older file.
    first, weights = multihost_utils.broadcast_one_to_all((np.int32(first), start))
    value_and_grad = jax.jit(jax.value_and_grad(loss))
    print(f"process {jax.process_index()} of {jax.process_count()} begins at step {int(first)}", flush=True)
    for step in range(int(first), options.steps):
        rng = np.random.default_rng([step, jax.process_index()])
        mine = rng.standard_normal((BATCH_PER_PROCESS, FEATURES), np.float32)
        x = jax.make_array_from_process_local_data(split, mine)
        y = jax.make_array_from_process_local_data(split, mine.sum(axis=1))
        value, gradient = value_and_grad(weights, x, y)
        weights = weights - RATE * np.asarray(gradient)
        if (step + 1) % options.keep_every == 0:
            publish(step + 1, np.asarray(weights))
        if jax.process_index() == 0 and (step + 1) % options.save_every == 0:
            save(options.checkpoint, step + 1, np.asarray(weights))
            print(f"step {step + 1} loss {float(value):.5f}", flush=True)
        time.sleep(options.pause)
    print(f"process {jax.process_index()}: done after {options.steps} steps", flush=True)


def main() -> int:
    """Join the mesh that the environment describes, and train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--save-every", type=int, default=10)
    parser.add_argument("--keep-every", type=int, default=5, help="steps between two that are kept in memory")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds after each step")
    parser.add_argument("--checkpoint", type=Path, default=Path("checkpoint.npz"))
    options = parser.parse_args()
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(
        f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}",
        num_processes=int(os.environ["WORLD_SIZE"]),
        process_id=int(os.environ["RANK"]),
    )
    train(options)
    jax.distributed.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())

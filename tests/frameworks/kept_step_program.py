"""One rank of an example: `kept_step_program.py <example> <file or folder> <step to publish> <step to save> <room>`.

It calls the functions of the example that load, publish and save, and prints a digest of the state at each. The job of
the agent is done by the test: it sets the environment and moves published steps away. With `full` for the room, no file
can be written any more when the step is published.
"""

import hashlib
import importlib
import os
import resource
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
BESIDE = ROOT / "agent" / "elasticjob_agent" / "user_python" / "worker"
"""The folder of a file that an image has beside the program of examples/sampler."""


def digest(value: Any) -> str:
    """Return a hash of all arrays in a nested state."""
    found = hashlib.sha256()
    for path, array in _leaves(value, ""):
        found.update(path.encode() + array.tobytes())
    return found.hexdigest()[:16]


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key in sorted(value, key=str):
            yield from _leaves(value[key], f"{path}/{key}")
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
        for number, item in enumerate(value):
            yield from _leaves(item, f"{path}/{number}")
    elif hasattr(value, "numpy"):
        yield path, value.detach().cpu().numpy()
    elif hasattr(value, "tobytes"):
        yield path, value


def show(event: str, step: int, digest_: str) -> None:
    """Print one line for the test."""
    print(f"{event} {step} {digest_}", flush=True)


def show_torch(event: str, step: int, model: Any, optimizer: Any) -> None:
    """Print the line for a model that may be sharded; all ranks call this."""
    state_dict = importlib.import_module("torch.distributed.checkpoint.state_dict")
    options = state_dict.StateDictOptions(full_state_dict=True, cpu_offload=True)
    state = state_dict.get_state_dict(model, optimizer, options=options)
    if importlib.import_module("torch.distributed").get_rank() == 0:
        show(event, step, digest(state))


def run_torch(example: Any, path: Path, published: int, saved: int) -> None:
    """Train a DDP or FSDP example from its newest step to the later one of these two."""
    torch, dist = example.torch, example.dist
    dist.init_process_group("gloo")
    is_sharded = example.__file__.endswith("fsdp/train.py")
    if is_sharded:
        path.mkdir(parents=True, exist_ok=True)
        model = example.network()
        optimizer: Any = torch.optim.AdamW(model.parameters(), lr=0.01)
        shape = [example.BATCH, example.FEATURES]
    else:
        shape = [example.BATCH, example.COLOURS, example.SIZE, example.SIZE]
        torch.manual_seed(0)
        plain = example.network()
        plain(torch.zeros(shape))
        model = torch.nn.parallel.DistributedDataParallel(plain)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.5)

    def show_state(event: str, step: int) -> None:
        show_torch(event, step, model, optimizer)

    first = example.load(path, model, optimizer)
    show_state("loaded", first)
    for step in range(first + 1, max(published, saved) + 1):
        data = torch.randn(shape, generator=torch.Generator().manual_seed(step * 1000 + dist.get_rank()))
        optimizer.zero_grad()
        model(data).square().mean().backward()
        optimizer.step()
        if step == published:
            show_state("published", step)
            if not is_sharded or example.may_publish():
                example.publish(step, model, optimizer)
        if step == saved:
            show_state("saved", step)
            example.save(path, step, model, optimizer)
    dist.barrier()
    dist.destroy_process_group()


def run_sampler(example: Any, path: Path, published: int, saved: int) -> None:
    """Change the sharded parameters from the newest step to the later one of these two."""
    torch, dist = example.torch, example.dist
    dist.init_process_group("gloo")
    path.mkdir(parents=True, exist_ok=True)
    model = example.network("fsdp", torch.float64)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    training = example.Training(path, model, optimizer, None, None, example.may_publish())
    example.load(training)
    show_torch("loaded", training.step, model, optimizer)
    for step in range(training.step + 1, max(published, saved) + 1):
        rows = torch.randn(4, example.FEATURES, generator=torch.Generator().manual_seed(step), dtype=torch.float64)
        optimizer.zero_grad()
        model(rows).square().mean().backward()
        optimizer.step()
        training.step = step
        if step == published:
            show_torch("published", step, model, optimizer)
            if training.publishes:
                example.publish(training)
        if step == saved:
            show_torch("saved", step, model, optimizer)
            example.save(training)
    dist.barrier()
    dist.destroy_process_group()


def run_jax(example: Any, path: Path, published: int, saved: int) -> None:
    """Change the parameters from the newest step to the later one of these two."""
    first, weights = example.load(path)
    show("loaded", first, digest(weights))
    for step in range(first + 1, max(published, saved) + 1):
        weights = weights * 0.5 + step
        if step == published:
            show("published", step, digest(weights))
            example.publish(step, weights)
        if step == saved:
            show("saved", step, digest(weights))
            example.save(path, step, weights)


def run_xgboost(example: Any, path: Path, published: int, saved: int) -> None:
    """Grow trees from the newest model to the larger one of these two."""
    np = example.np

    def digest_of(model: Any) -> str:
        return digest(np.zeros(0) if model is None else np.frombuffer(model.save_raw("ubj"), np.uint8))

    model, first = example.load(path)
    show("loaded", first, digest_of(model))
    rows = example.rows(1)
    for have in range(first + 1, max(published, saved) + 1):
        model = example.xgboost.train(example.PARAMETERS, rows, num_boost_round=1, xgb_model=model)
        if have == published:
            show("published", have, digest_of(model))
            example.publish(have, model)
        if have == saved:
            show("saved", have, digest_of(model))
            example.save(path, model)


def without_room(publish: Callable[..., None]) -> Callable[..., None]:
    """Return the function with a limit of the kernel: each write to a file fails, as in a full volume."""

    def publish_without_room(*arguments: Any) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        publish(*arguments)

    return publish_without_room


RUNS = {"ddp": run_torch, "fsdp": run_torch, "sampler": run_sampler, "jax": run_jax, "xgboost": run_xgboost}


def main() -> None:
    """Import the example as its own command does, from its folder, and run it."""
    name, path, published, saved, room = sys.argv[1:]
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.path[0:1] = [str(EXAMPLES / name), str(BESIDE)]
    example: Any = importlib.import_module("train")
    if room == "full":
        example.publish = without_room(example.publish)
    RUNS[name](example, Path(path), int(published), int(saved))


if __name__ == "__main__":
    main()

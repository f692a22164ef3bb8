"""Functions that the ranks of a call run in tests; the workers import them by name."""

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any, NoReturn


def place() -> tuple[int, int, int]:
    """Return rank, world size, and the node."""
    return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), int(os.environ["GROUP_RANK"])


def big(size: int) -> bytes:
    """Return this many bytes, which depend on the rank."""
    return bytes([int(os.environ["RANK"])]) * size


def raises_on(rank: int) -> int:
    """Raise an error on this rank; the other ranks run until they are stopped."""
    if int(os.environ["RANK"]) == rank:
        raise ValueError(f"no luck on rank {rank}")
    while True:
        time.sleep(60)


def dies_on(rank: int) -> int:
    """Kill this rank."""
    if int(os.environ["RANK"]) == rank:
        os.kill(os.getpid(), signal.SIGKILL)
    while True:
        time.sleep(60)


def cannot_be_sent() -> Any:
    """Return a value that cannot be pickled."""
    return threading.Lock()


def leaves(code: int) -> NoReturn:
    """Exit as a script does."""
    raise SystemExit(code)


def waits_for(folder: Path, nodes: int) -> tuple[int, int]:
    """Write a file for this rank of this round; return when the round has this many nodes."""
    world, group = int(os.environ["WORLD_SIZE"]), int(os.environ["GROUP_WORLD_SIZE"])
    (folder / f"{os.environ['ELASTICJOB_ROUND']}.{os.environ['RANK']}.{os.getpid()}").touch()
    while group != nodes:
        time.sleep(60)  # until a new round stops it
    return int(os.environ["RANK"]), world


def waits_for_file(folder: Path) -> int:
    """Write a file for this rank of this round; return when there is a file `go`."""
    (folder / f"{os.environ['ELASTICJOB_ROUND']}.{os.environ['RANK']}.{os.getpid()}").touch()
    while not (folder / "go").exists():
        time.sleep(0.02)
    return int(os.environ["RANK"])

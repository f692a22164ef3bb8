"""What the ranks of a call do in tests; imported by name in the workers' own interpreters."""

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any, NoReturn


def place() -> tuple[int, int, int]:
    """Rank, world size, and the node."""
    return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), int(os.environ["GROUP_RANK"])


def big(size: int) -> bytes:
    """As many bytes, which tell their rank."""
    return bytes([int(os.environ["RANK"])]) * size


def raises_on(rank: int) -> int:
    """That rank raises; the others go on until they are stopped."""
    if int(os.environ["RANK"]) == rank:
        raise ValueError(f"no luck on rank {rank}")
    while True:
        time.sleep(60)


def dies_on(rank: int) -> int:
    """That rank is killed."""
    if int(os.environ["RANK"]) == rank:
        os.kill(os.getpid(), signal.SIGKILL)
    while True:
        time.sleep(60)


def cannot_be_sent() -> Any:
    """A value that is no data."""
    return threading.Lock()


def leaves(code: int) -> NoReturn:
    """As a script does."""
    raise SystemExit(code)


def waits_for(folder: Path, nodes: int) -> tuple[int, int]:
    """Say that this rank of this round is there; return when the round is one of so many nodes."""
    world, group = int(os.environ["WORLD_SIZE"]), int(os.environ["GROUP_WORLD_SIZE"])
    (folder / f"{os.environ['ELASTICJOB_ROUND']}.{os.environ['RANK']}.{os.getpid()}").touch()
    while group != nodes:
        time.sleep(60)  # until a new round stops it
    return int(os.environ["RANK"]), world


def waits_for_file(folder: Path) -> int:
    """Say that this rank of this round is there; return when there is a file `go`."""
    (folder / f"{os.environ['ELASTICJOB_ROUND']}.{os.environ['RANK']}.{os.getpid()}").touch()
    while not (folder / "go").exists():
        time.sleep(0.02)
    return int(os.environ["RANK"])

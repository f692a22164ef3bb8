"""Settings of a worker: the command line selects the training, the environment identifies the process.

RANK, WORLD_SIZE, MASTER_ADDR and so on are those of torchrun. elasticjob adds ELASTICJOB_ROUND, ELASTICJOB_PROGRESS
and, if the job keeps steps in memory, ELASTICJOB_KEEP and ELASTICJOB_KEPT. No other module of this example reads the
command line or the environment.
"""

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from allreduce import Caller


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of the training."""

    epochs: int
    batch: int
    lr: float
    hidden: int
    seed: int
    step_seconds: float

    def folder(self, root: Path) -> Path:
        """Return the folder for this run's files: separate for other settings, but epochs may be added later."""
        return root / f"seed{self.seed}-batch{self.batch}-lr{self.lr:g}-hidden{self.hidden}"


@dataclass(frozen=True, slots=True)
class Place:
    """The identity of this worker."""

    rank: int
    local_rank: int
    world_size: int
    node: int
    round: int
    master_addr: str
    master_port: int
    checkpoint_dir: Path
    progress: str | None
    keep: Path | None = None
    """Where this node publishes checkpoints; None if the job keeps none in memory."""
    kept: Path | None = None
    """The newest published checkpoint that survived."""

    @property
    def caller(self) -> Caller:
        """Return the identity that the other ranks check."""
        return Caller(rank=self.rank, world_size=self.world_size, round=self.round)

    @classmethod
    def from_environment(cls, env: Mapping[str, str]) -> Self:
        """Read the environment; without it, the process is the only one of its world."""
        return cls(
            rank=int(env.get("RANK", "0")),
            local_rank=int(env.get("LOCAL_RANK", "0")),
            world_size=int(env.get("WORLD_SIZE", "1")),
            node=int(env.get("GROUP_RANK", "0")),
            round=int(env.get("ELASTICJOB_ROUND", env.get("TORCHELASTIC_RESTART_COUNT", "0"))),
            master_addr=env.get("MASTER_ADDR", "localhost"),
            master_port=int(env.get("MASTER_PORT", "0")),
            checkpoint_dir=Path(env.get("CHECKPOINT_DIR", "checkpoints")),
            progress=env.get("ELASTICJOB_PROGRESS"),
            keep=_path(env.get("ELASTICJOB_KEEP")),
            kept=_path(env.get("ELASTICJOB_KEPT")),
        )


def read_settings(arguments: list[str]) -> Settings:
    """Parse the command line; print usage and exit with 2 if it is wrong."""
    parser = argparse.ArgumentParser(description="Train a digit classifier data-parallel and prove the result.")
    parser.add_argument("--epochs", type=_positive, default=20)
    parser.add_argument("--batch", type=_positive, default=96, help="samples per step, over all workers")
    parser.add_argument("--lr", type=float, default=0.5, help="learning rate")
    parser.add_argument("--hidden", type=_positive, default=32, help="units of the hidden layer")
    parser.add_argument("--seed", type=_natural, default=0)
    parser.add_argument("--step-seconds", type=float, default=0.0, help="minimum time per step, for an observer")
    return Settings(**vars(parser.parse_args(arguments)))


def _path(text: str | None) -> Path | None:
    return Path(text) if text else None


def _natural(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    return int(text)


def _positive(text: str) -> int:
    if _natural(text) == 0:
        raise argparse.ArgumentTypeError("it must be at least 1")
    return int(text)

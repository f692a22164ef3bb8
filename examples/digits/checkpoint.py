"""Checkpoint files: parameters, the step of the training, and the steps that made them.

A file is complete or it does not exist (temporary file, fsync, rename). Its first line is the digest of the rest, so a
torn or altered file is never loaded. Each node writes its own copies under its own name, so CHECKPOINT_DIR may be
private to a node (an emptyDir) or shared by all.

Three parts, separated by line breaks: the SHA-256 of the rest; step, attempt and lineage as JSON; the
parameters as raw float64.

Where ELASTICJOB_KEEP is set, each node also publishes the same content there, in memory. After a start ELASTICJOB_KEPT
then has the newest one that survived, for a node whose own files are lost or damaged.
"""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from errors import CheckpointError
from model import Vector
from proof import Segment

_NAME = re.compile(r"step-(?P<step>\d+)\.attempt-(?P<attempt>\d+)\.node-(?P<node>\d+)\.ckpt")

_KEPT = "digits.ckpt"

KEEP = 3
"""The number of steps whose checkpoints remain: if the newest file is damaged, there is an older one."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The parameters after `step` steps, written in attempt `attempt`."""

    step: int
    attempt: int
    lineage: tuple[Segment, ...]
    parameters: Vector

    def encode(self) -> bytes:
        """Return the file's content."""
        facts = {"step": self.step, "attempt": self.attempt, "lineage": [asdict(part) for part in self.lineage]}
        body = json.dumps(facts).encode() + b"\n" + self.parameters.tobytes()
        return _digest(body) + b"\n" + body


def decode(content: bytes, *, size: int) -> Checkpoint:
    """Read a file's content back; `size` is the number of parameters that the model has.

    Raises:
        CheckpointError: the content is torn, was altered, or is of another model.
    """
    digest, _, body = content.partition(b"\n")
    if digest != _digest(body):
        raise CheckpointError("torn or altered: its digest does not match")
    facts, _, raw = body.partition(b"\n")
    if len(raw) != 8 * size:
        raise CheckpointError(f"holds {len(raw) // 8} parameters, the model has {size}")
    fields = json.loads(facts)
    lineage = tuple(Segment(**part) for part in fields["lineage"])
    return Checkpoint(fields["step"], fields["attempt"], lineage, np.frombuffer(raw))


def parameter_hash(parameters: Vector) -> str:
    """Return a hash that is equal if and only if every bit of the parameters is."""
    return hashlib.sha256(parameters.tobytes()).hexdigest()


def save(folder: Path, checkpoint: Checkpoint, *, node: int) -> Path:
    """Write a checkpoint so that it survives a crash at any point, and drop this run's oldest ones."""
    path = folder / f"step-{checkpoint.step:06}.attempt-{checkpoint.attempt}.node-{node}.ckpt"
    unfinished = folder / f"node-{node}.unfinished"
    with unfinished.open("wb") as file:
        file.write(checkpoint.encode())
        file.flush()
        os.fsync(file.fileno())
    unfinished.rename(path)
    _sync_folder(folder)
    _prune(folder)
    return path


def publish(keep: Path, checkpoint: Checkpoint) -> None:
    """Publish a checkpoint as a step in memory. Its directory gets the name of a step when all is written."""
    draft = keep / f"writing-{checkpoint.step}"
    try:
        draft.mkdir()
        (draft / _KEPT).write_bytes(checkpoint.encode())
        draft.rename(keep / f"step-{checkpoint.step}")  # from now on it is not the script's any more
    except OSError:  # no room: train on without this step
        shutil.rmtree(draft, ignore_errors=True)


def load_kept(kept: Path, *, size: int) -> Checkpoint:
    """Return the checkpoint that was published; raise CheckpointError if it is damaged or of another model."""
    return decode((kept / _KEPT).read_bytes(), size=size)


def newest_first(folder: Path) -> list[Path]:
    """Return all checkpoint files of a folder, the newest step first; for one step, the latest attempt first."""
    return sorted((path for path in folder.iterdir() if _NAME.fullmatch(path.name)), key=_age, reverse=True)


def load_newest(folder: Path, *, size: int) -> tuple[Checkpoint | None, dict[str, str]]:
    """Return the newest usable checkpoint of a folder, and the unusable newer files by name, with the reasons."""
    unusable: dict[str, str] = {}
    for path in newest_first(folder):
        try:
            return decode(path.read_bytes(), size=size), unusable
        except (OSError, CheckpointError) as error:
            unusable[path.name] = str(error)
    return None, unusable


def _age(path: Path) -> tuple[int, int, int]:
    name = _NAME.fullmatch(path.name)
    assert name is not None, f"{path} comes from newest_first"
    return int(name["step"]), int(name["attempt"]), int(name["node"])


def _prune(folder: Path) -> None:
    for path in _outdated(newest_first(folder)):
        # If nodes share the folder, another one may have deleted it first.
        path.unlink(missing_ok=True)


def _outdated(paths: list[Path]) -> Iterator[Path]:
    steps: set[int] = set()
    for path in paths:
        step = _age(path)[0]
        if step not in steps and len(steps) == KEEP:
            yield path
        else:
            steps.add(step)


def _sync_folder(folder: Path) -> None:
    # The rename itself must be on disk too, not only the file's content.
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _digest(body: bytes) -> bytes:
    return hashlib.sha256(body).hexdigest().encode()

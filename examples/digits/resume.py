"""The start of a round: all nodes offer their checkpoints, and all continue from the newest one.

No storage is shared: one surviving node is enough, because its copy is sent to all. Every rank decides by the same pure
function from the same gathered facts, so no second exchange is needed.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from allreduce import Group
from checkpoint import Checkpoint, decode, load_kept, load_newest, parameter_hash
from errors import CheckpointError, ProofError
from journal import attempt_from, newest_usable, read_journals
from proof import Attempt, differing_ranks, merge


@dataclass(frozen=True, slots=True)
class Start:
    """The result on which all ranks agreed."""

    checkpoint: Checkpoint
    """Parameters and step to continue from; step 0 if no node has a checkpoint."""
    attempt: Attempt
    before: tuple[Attempt, ...]


def agree_on_start(
    group: Group, folder: Path | None, *, round_: int, fresh: Checkpoint, kept: Path | None = None
) -> Start:
    """Find the newest checkpoint among all ranks' folders (None: another rank reads this node's) and in `kept`.

    Raises:
        ProofError: nodes have the same checkpoint with different parameters.
    """
    found, offer = _look(folder, kept, size=fresh.parameters.size, rank=group.rank)
    offers = group.all_gather(offer)
    root = choose(offers)
    checkpoint = fresh
    if root is not None:
        payload = found.encode() if found is not None and group.rank == root else b""
        checkpoint = decode(group.broadcast(payload, root=root), size=fresh.parameters.size)
    before = merge(map(attempt_from, offer["attempts"]) for offer in offers)
    attempt = Attempt(
        number=len(before) + 1,
        round=round_,
        world_size=group.world_size,
        start=checkpoint.step,
        newest=max(offer["newest"] for offer in offers),
        saved=checkpoint.step,
    )
    return Start(checkpoint, attempt, before)


def choose(offers: Sequence[dict[str, Any]]) -> int | None:
    """Return the rank with the checkpoint for all: the furthest, then of the latest attempt; None without any.

    Raises:
        ProofError: the nodes that have that checkpoint have different parameters.
    """
    ages = [(offer["step"], offer["by"]) for offer in offers]
    newest = max(ages)
    if newest[0] == 0:
        return None
    hashes = [offer["hash"] if age == newest else None for age, offer in zip(ages, offers, strict=True)]
    if difference := differing_ranks(hashes):
        raise ProofError(f"the checkpoint of step {newest[0]} differs between nodes: {difference}")
    return ages.index(newest)


def _look(folder: Path | None, kept: Path | None, *, size: int, rank: int) -> tuple[Checkpoint | None, dict[str, Any]]:
    if folder is None:
        return None, {"step": 0, "by": 0, "hash": None, "newest": 0, "attempts": []}
    on_disk, damaged = load_newest(folder, size=size)
    checkpoint = newer(on_disk, _read_kept(kept, size=size, rank=rank))
    for name, reason in damaged.items():
        print(f"rank {rank}: ignored the checkpoint {name}: {reason}", flush=True)
    witness = read_journals(folder)
    return checkpoint, {
        "step": checkpoint.step if checkpoint else 0,
        "by": checkpoint.attempt if checkpoint else 0,
        "hash": parameter_hash(checkpoint.parameters) if checkpoint else None,
        "newest": newest_usable(witness, damaged),
        "attempts": [asdict(attempt) for attempt in witness.attempts],
    }


def newer(one: Checkpoint | None, other: Checkpoint | None) -> Checkpoint | None:
    """Return the checkpoint of the higher step, then of the later attempt; None if there is none."""
    found = [each for each in (one, other) if each is not None]
    return max(found, key=lambda each: (each.step, each.attempt), default=None)


def _read_kept(kept: Path | None, *, size: int, rank: int) -> Checkpoint | None:
    if kept is None:
        return None
    try:
        return load_kept(kept, size=size)
    except (OSError, CheckpointError) as error:
        print(f"rank {rank}: ignored the step in {kept}: {error}", flush=True)
        return None

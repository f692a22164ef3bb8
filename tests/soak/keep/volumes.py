"""How much each node keeps: G7, by the files of its volume."""

import contextlib
import glob
import time
from collections import Counter, defaultdict
from pathlib import Path

from elasticjob_api.errors import RecordError
from elasticjob_api.kept_steps import Lineage
from tests.soak.keep.events import Journal
from tests.soak.keep.fleet import Node

_OWN, _REPLICAS, _ALL = 3, 2, 16
"""The most own steps of a round, the most replicas of one part, and the most steps at all."""
_WITHIN_S, _PAUSE_S = 5.0, 0.2
_Part = tuple[int, int, int]
"""Number of the step, index, count of parts."""


def find_excess(node: Node, journal: Journal) -> str:
    """Return how a node keeps too much, for seconds; empty if it does not. A step that is being dropped is no fault."""
    deadline = time.monotonic() + _WITHIN_S
    while found := _excess(node, journal):
        if time.monotonic() > deadline:
            return found
        time.sleep(_PAUSE_S)
    return ""


def held_parts(folder: Path) -> dict[Lineage, set[_Part]]:
    """Return the parts that are held below a node's memory; its keeper may drop some meanwhile."""
    found = defaultdict[Lineage, set[_Part]](set)
    # Unlike Path.glob, this one goes on when a directory that it was about to read is gone.
    for path in map(Path, glob.iglob("*/volume/held/*/*/*-of-*", root_dir=folder)):  # noqa: PTH207
        with contextlib.suppress(RecordError, ValueError):
            index, _, parts = path.name.removesuffix(".json").partition("-of-")
            found[Lineage.parse(path.parts[-3])].add((int(path.parts[-2]), int(index), int(parts)))
    return dict(found)


def _excess(node: Node, journal: Journal) -> str:
    held = held_parts(node.folder)
    steps = sum(len({number for number, _, _ in parts}) for parts in held.values())
    if steps > _ALL:
        return f"G7: {node.name} keeps {steps} steps"
    newest = max(held, default=None)
    if newest is None or newest not in journal.rounds:
        return ""
    own = _published_by(journal, newest, node.name)
    mine = {number for number, index, parts in held[newest] if (index, parts) in own}
    if len(mine) > _OWN and not _was_left_by_frozen_keeper(journal, newest, node.name):
        return f"G7: {node.name} keeps own steps {sorted(mine)} of round {newest}"
    replicas = Counter((index, parts) for _, index, parts in held[newest] if (index, parts) not in own)
    if replicas and max(replicas.values()) > _REPLICAS:
        return f"G7: {node.name} keeps more replicas of a part than {_REPLICAS} in round {newest}: {replicas}"
    return ""


def _was_left_by_frozen_keeper(journal: Journal, lineage: Lineage, node: str) -> bool:
    """Return whether this round has ended, and the node's keeper was frozen in it.

    The next keeper holds all that was published meanwhile, until the first commit of the next round.
    """
    present = [Lineage(each["round"], each["nonce"]) for each in journal.states[-1:] if each["phase"] == "active"]
    began = journal.rounds[lineage].began
    frozen = [each for each in journal.faults if each["kind"] == "keeper stands still" and each["node"] == node]
    return present != [lineage] and any(each["t"] >= began for each in frozen)


def _published_by(journal: Journal, lineage: Lineage, node: str) -> set[tuple[int, int]]:
    """Return index and count of the parts that the workers of a node publish in a round."""
    return journal.rounds[lineage].published_by.get(node, set())

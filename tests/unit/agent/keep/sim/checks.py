"""The guarantees of Keep, checked against what really happened, which no rule knows.

| name | guarantee |
| --- | --- |
| G1 | each part of an offered step is where the records name it, undetected losses apart |
| G2 | all parts of an offered step were written in its lineage |
| G3 | all workers of a round restore the same step |
| G4 | without a loss, a step that was whole is not given up, and the newest common step is offered |
| G5 | a committed step, or a newer one, is offered after as many losses as there are copies |
| G6 | an offered step is one that the training descends from, and was never struck |
| G7 | a node holds three steps of its own in a round, and two steps of each part that it keeps for others |
| G8 | a fetch fails only after a loss |
| G9 | after the last fault training runs, and the newest step becomes committed, with all copies |
| G11 | the newest step that is whole, in memory or in the shared directory, is offered |
| G15 | of the steps on disk that the training descends from, the newest stay, and of higher ones the highest |
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from elasticjob_agent.rendezvous.protocol.keep.holders import is_whole
from elasticjob_agent.rendezvous.protocol.keep.restore_choice import RestoreDecision
from elasticjob_api.holdings import HoldingsRecord
from elasticjob_api.kept_steps import History, KeptStep, Lineage, PersistedStep
from elasticjob_api.rendezvous_state import Member
from tests.unit.agent.keep.sim.node import SimNode

MOST_OWN_STEPS = 3
MOST_REPLICAS = 2
MOST_OLDER_STEPS = 4
"""Steps that a node keeps in case the restored one is lost."""


class Violation(AssertionError):
    """A guarantee was broken; the first word is its name."""


def require(name: str, *, holds: bool, detail: object = "") -> None:
    """Raise Violation unless the guarantee holds."""
    if not holds:
        raise Violation(f"{name} {detail}")


@dataclass(frozen=True)
class Line:
    """The lineages that the training really descends from."""

    entries: tuple[tuple[Lineage, int | None], ...] = ()
    struck: frozenset[KeptStep] = frozenset()

    def includes(self, step: KeptStep) -> bool:
        """Return whether the training descends from this step."""
        return any(
            step.lineage == lineage and (highest is None or step.number <= highest) for lineage, highest in self.entries
        )

    def went_on(self, lineage: Lineage) -> "Line":
        """Return the line after an active state."""
        return replace(self, entries=((lineage, None), *self.entries))

    def restored(self, step: KeptStep | None, persisted: Sequence[KeptStep]) -> "Line":
        """Return the line of a round that restores this step; `persisted` are on disk, the oldest first.

        A new run descends from the step of an earlier one, and from what that may have been trained from.
        """
        if step is None:
            return replace(self, entries=())
        if not self.entries and step in persisted:
            earlier = [each for each in persisted[: persisted.index(step) + 1] if each.number <= step.number]
            return replace(self, entries=tuple((each.lineage, each.number) for each in reversed(earlier)))
        lineages = [lineage for lineage, _ in self.entries]
        behind = self.entries[lineages.index(step.lineage) + 1 :] if step.lineage in lineages else ()
        return replace(self, entries=((step.lineage, step.number), *behind))

    def age(self, step: KeptStep | None) -> tuple[int, int]:
        """Return a key that is higher for newer steps of the line."""
        lineages = [lineage for lineage, _ in self.entries]
        if step is None or step.lineage not in lineages:
            return -len(lineages), -1
        return -lineages.index(step.lineage), step.number


@dataclass
class Truth:
    """The losses and commits that really happened, over all rounds."""

    copies: int
    losses: int = 0
    """Losses since the committed step had all its copies."""
    deficit: int = 0
    """How many copies it lacked then, because there were too few members."""
    committed: KeptStep | None = None
    was_whole: bool = False
    """Whether some step was whole since the last loss."""
    skipped: set[KeptStep] = field(default_factory=set)
    """Steps for which a node had no room."""
    was_full: bool = False
    """Whether a node ever refused a part for lack of room."""
    restored: dict[Lineage, set[KeptStep | None]] = field(default_factory=dict)

    def lose(self) -> None:
        """Count the loss of a node."""
        self.losses += 1
        self.was_whole = False

    def note_whole(self, line: Line, nodes: Iterable[SimNode]) -> None:
        """Note whether a step is whole now."""
        if not self.losses and not self.was_whole:
            volumes = [node.volume for node in nodes if node.has_parts]
            steps = {step for volume in volumes for step in volume if line.includes(step)}
            self.was_whole = any(is_whole(step, volumes) for step in steps)

    def note_commit(self, step: KeptStep, line: Line, members: int, nodes: Iterable[SimNode]) -> None:
        """Note that a leader answered that this step is committed; `members` is the size of the round."""
        require("G6", holds=line.includes(step), detail=f"{step} is committed")
        least = self._least_holders(members)
        if self.committed is None or not line.includes(self.committed) or self.committed <= step:
            self.committed, self.deficit = step, max(0, 1 + self.copies - least)
            if count_holders(step, nodes) >= least:
                self.losses = 0

    def note_departure(self, members: int) -> None:
        """Note that a holder has left, because the holders in a round of so many members are enough."""
        self.deficit = max(self.deficit, 1 + self.copies - self._least_holders(members))

    def _least_holders(self, members: int) -> int:
        return min(2 if self.was_full else 1 + self.copies, members)


def count_holders(step: KeptStep, nodes: Iterable[SimNode]) -> int:
    """Return how many of these nodes hold the rarest part of this step, those that leave apart."""
    volumes = [node.volume for node in nodes if node.has_parts and not node.is_leaving]
    return min(sum(part in volume.get(step, ()) for volume in volumes) for part in range(step.parts))


def check_offer(
    truth: Truth,
    line: Line,
    decision: RestoreDecision,
    records: Mapping[Member, HoldingsRecord],
    nodes: Mapping[Member, SimNode],
) -> None:
    """Check the step that a round offers; `nodes` are those that live, and whose key exists."""
    step = decision.step
    if step is not None:
        if not decision.run:
            _check_parts(step, records, nodes)
        is_new_run = bool(decision.run) and not line.entries
        require("G6", holds=is_new_run or (line.includes(step) and step not in line.struck), detail=step)
        require("G6", holds=decision.history.is_alive(step), detail=decision.history)
    if truth.losses + truth.deficit <= truth.copies and truth.committed is not None and line.includes(truth.committed):
        require("G5", holds=line.age(step) >= line.age(truth.committed), detail=f"{step} for {truth.committed}")
    require("G4", holds=not truth.was_whole or truth.losses > 0 or step is not None, detail="nothing is offered")


def _check_parts(step: KeptStep, records: Mapping[Member, HoldingsRecord], nodes: Mapping[Member, SimNode]) -> None:
    held = {member: record.steps.get(step, frozenset()) for member, record in records.items()}
    origins = {
        nodes[member].origins[step, part]
        for member, parts in held.items()
        if member in nodes
        for part in parts & nodes[member].volume.get(step, frozenset())
    }
    require("G2", holds=origins <= {step.lineage}, detail=f"{step}: {origins}")
    require("G1", holds=frozenset().union(*held.values()) == frozenset(range(step.parts)), detail=f"{step}: {held}")
    for member, parts in held.items():
        if member in nodes:
            require("G1", holds=parts <= nodes[member].volume.get(step, frozenset()), detail=f"{step} at {member}")


def check_newest(
    line: Line,
    history: History,
    decision: RestoreDecision,
    records: Mapping[Member, HoldingsRecord],
    persisted: AbstractSet[KeptStep],
) -> None:
    """Check that no whole step is newer than the offered one; `persisted` are in the shared directory."""
    holdings = [record.steps for record in records.values()]
    whole = {step for held in holdings for step in held if is_whole(step, holdings)}
    whole |= persisted
    whole |= {record.persisted.step for record in records.values() if record.persisted is not None}
    for step in whole:
        if (history.is_alive(step) or step in persisted - line.struck) and line.includes(step):
            require("G11", holds=line.age(decision.step) >= line.age(step), detail=f"{decision.step} for {step}")
    is_new = not history.entries and not line.entries
    require("G11", holds=decision.step is not None or not persisted or not is_new, detail="it begins anew")


def check_removed(line: Line, found: Sequence[PersistedStep], removed: Collection[PersistedStep], keep: int) -> None:
    """Check the steps that a node removes from the shared directory, which has the `found` ones."""
    left = [each.step for each in found if each not in removed]
    own = sorted((step for step in left if line.includes(step)), key=line.age)
    for step in (each.step for each in removed):
        if line.includes(step):
            newer = [each for each in own if line.age(each) > line.age(step)]
            require("G15", holds=len(newer) >= keep, detail=f"{step} is removed from {found}")
        elif own and step.number > own[-1].number:
            higher = [each for each in left if not line.includes(each) and each.number >= step.number]
            require("G15", holds=len(higher) >= keep, detail=f"{step} is ahead, and removed from {found}")


def check_node(node: SimNode) -> None:
    """Check how much one node holds."""
    if node.known is None:
        return
    own = sorted(step for step in node.own() if node.known.is_of_round(step))
    # With full copies, a step that a peer has sent and that was announced stays when the node publishes it, too.
    replicas = set(own[1:-1]) & node.counted()
    require("G7", holds=len(replicas) <= MOST_REPLICAS, detail=f"own steps {own}")
    require("G7", holds=len(own) - len(replicas) <= MOST_OWN_STEPS, detail=f"own steps {own}")
    of_round = [step for step in node.volume if node.known.is_of_round(step)]
    indices = {index for step in of_round for index in node.volume[step]}
    for index in indices:
        kept = [step for step in of_round if index in node.volume[step] - node.own().get(step, frozenset())]
        require("G7", holds=len(kept) <= MOST_REPLICAS, detail=f"replicas {kept}")
    older = [step for step in node.volume if not node.known.is_of_round(step)]
    require("G7", holds=len(older) <= MOST_OLDER_STEPS, detail=f"older steps {older}")

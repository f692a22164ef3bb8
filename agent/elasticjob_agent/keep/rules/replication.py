"""Which parts a keeper copies to its peers, and what it answers when a peer offers it a part.

A keeper copies its own parts of the oldest uncommitted step only. So a receiver holds two steps of each peer at most:
the committed one, and the one that is being copied.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from elasticjob_agent.keep.rules.retention import REPLICAS_OF_A_PART, KeeperRound
from elasticjob_api.kept_steps import History, Holdings, KeptStep, Lineage
from elasticjob_api.rendezvous_state import Member


class OfferAnswer(Enum):
    """The answer of a receiver to the offer of a part."""

    HAVE = "have"
    """It is held here already."""
    WANT = "want"
    LATER = "later"
    """Not now: this keeper is behind, or the sender is."""
    FULL = "full"
    """There is no room."""
    DEAD = "dead"
    """The training does not descend from this step."""


@dataclass(frozen=True, slots=True)
class RoundPlace:
    """The place of one node among the members and the workers of a round."""

    rank: int
    members: int
    base_rank: int
    workers: int
    world_size: int


def own_parts(
    known: KeeperRound, step: KeptStep, place: RoundPlace, published: Mapping[int, frozenset[int]], held: Holdings
) -> frozenset[int]:
    """Return the parts of this step that this node copies to others, out of those that it holds.

    Of its own round these are the parts that its workers publish, also if a peer was faster to send one. Their indices
    are in `published`, by the count of parts. All members hold the restored step. Each copies the
    share of its rank if there is one part for each member or each worker, and else every part.
    """
    here = held.get(step, frozenset())
    if step.lineage == known.lineage:
        return here & published.get(step.parts, frozenset())
    if step != known.restored:
        return frozenset()
    if step.parts == place.members:
        return here & {place.rank}
    if step.parts == place.world_size:
        return here & frozenset(range(place.base_rank, place.base_rank + place.workers))
    return here


def pending_copies(
    own: frozenset[int], targets: Iterable[Member], done: Mapping[Member, Collection[int]]
) -> dict[Member, frozenset[int]]:
    """Return the own parts of a step that each target has still to get; a target that has all of them is left out.

    The targets keep their order. `done` has the parts of the step that members have got.
    """
    pending = {target: own.difference(done.get(target, ())) for target in targets}
    return {target: parts for target, parts in pending.items() if parts}


def answer_offer(
    known: KeeperRound | None,
    history: History,
    sender: Lineage,
    step: KeptStep,
    index: int,
    *,
    held: Holdings,
    own: Holdings,
    has_room: bool,
) -> OfferAnswer:
    """Return the answer to an offer of this part by a keeper of the round `sender`.

    `history` includes the lineage of the active round. `known` is None while no round is active.
    """
    if index in held.get(step, ()):
        return OfferAnswer.HAVE
    if known is None or sender.round > known.lineage.round:
        return OfferAnswer.LATER
    if not history.is_alive(step):
        return OfferAnswer.DEAD
    if not known.is_running or sender != known.lineage or not known.is_at_stake(step):
        return OfferAnswer.LATER
    if _is_skipped(known, step, index, own) or _has_enough(known, step, index, held, own):
        return OfferAnswer.LATER
    return OfferAnswer.WANT if has_room else OfferAnswer.FULL


def _is_skipped(known: KeeperRound, step: KeptStep, index: int, own: Holdings) -> bool:
    """Whether this node publishes that part itself and has a newer one; the floor drops the step at the sender."""
    return any(index in parts and each > step and known.is_at_stake(each) for each, parts in own.items())


def _has_enough(known: KeeperRound, step: KeptStep, index: int, held: Holdings, own: Holdings) -> bool:
    """Whether the part is held of two other steps of the round already, as replicas."""
    others = [each for each in held if each != step and known.is_of_round(each)]
    replicas = [each for each in others if index in held[each] - own.get(each, frozenset())]
    return len(replicas) >= REPLICAS_OF_A_PART

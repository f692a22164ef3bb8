"""The steps that one keeper drops: never the committed one, and never the oldest uncommitted one.

Steps *at stake* are the one that the round restored and those of its own lineage, as long as they are not committed.
Older steps that the keeper still holds are there in case the restored step is lost; only a commit drops them.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from elasticjob_agent.keep.rules.commit import SafePoint
from elasticjob_api.kept_steps import History, Holdings, KeptStep, Lineage

REPLICAS_OF_A_PART = 2
"""Of so many steps a node has the copy of a part: the committed one, and the one that is being copied."""
_OWN_STEPS = 3


@dataclass(frozen=True, slots=True)
class KeeperRound:
    """The knowledge of one keeper about the round whose workers its node runs. There is none while a round forms."""

    lineage: Lineage
    restored: KeptStep | None = None
    """The step that the round restored from memory."""
    committed: KeptStep | None = None
    """The newest step that is known to be committed. A new round begins without one, so all is copied again."""
    is_running: bool = False
    """Whether the workers have started. Nothing is dropped before."""

    def is_of_round(self, step: KeptStep) -> bool:
        """Whether the round restored this step, or wrote it."""
        return step.lineage == self.lineage or step == self.restored

    def is_at_stake(self, step: KeptStep) -> bool:
        """Whether the step is of this round and not committed."""
        return self.is_of_round(step) and (self.committed is None or step > self.committed)


def select_alive(held: Holdings, history: History, active: Lineage | None) -> Holdings:
    """Return the holdings that the training descends from, also in the lineage of the active state."""
    present = history if active is None else history.with_lineage(active)
    return {step: parts for step, parts in held.items() if present.is_alive(step)}


def oldest_uncommitted(known: KeeperRound, own: Iterable[KeptStep]) -> KeptStep | None:
    """Return the one step that this keeper copies to others now."""
    return min(filter(known.is_at_stake, own), default=None)


def announced(known: KeeperRound, own: Holdings, held: Holdings) -> Holdings:
    """Return the holdings that the keeper announces: those that nothing but a commit or the floor drops.

    Own parts above the oldest uncommitted step are not among them. They may be superseded, or room may be short, after
    a leader has counted them.
    """
    oldest = oldest_uncommitted(known, own)
    lasting = {
        step: parts if oldest is None or step <= oldest else parts - own.get(step, frozenset())
        for step, parts in held.items()
    }
    return {step: parts for step, parts in lasting.items() if parts}


def is_skipped(known: KeeperRound, own: Iterable[KeptStep], taken: KeptStep) -> bool:
    """Whether a step is not taken: it is committed or older, or older than the oldest uncommitted one.

    The keeper has announced its oldest step. So the floor drops older ones at other members.
    """
    oldest = oldest_uncommitted(known, own)
    return (known.committed is not None and taken <= known.committed) or (oldest is not None and taken < oldest)


def superseded(known: KeeperRound, own: Iterable[KeptStep], counted: Collection[KeptStep] = ()) -> list[KeptStep]:
    """Return the steps whose own parts are dropped: those between the oldest and the newest uncommitted one.

    Parts of other members stay. A peer may wait for its copy. So do the `counted` steps, whose own parts were announced
    in this round: they came from a peer before the workers published that part.
    """
    return [step for step in sorted(filter(known.is_at_stake, own))[1:-1] if step not in counted]


def incomplete(known: KeeperRound, own: Holdings, taken: KeptStep, before: Mapping[int, int]) -> list[KeptStep]:
    """Return the own steps that never become whole, now that workers of this node have published parts of `taken`.

    `before` has the index of each of these parts, with the number that was published for it before. The worker has
    passed the numbers between, and no other one publishes that part. Without this rule such a step would be the oldest
    uncommitted one, and nothing newer would be committed in the round.
    """
    return [
        step
        for step, parts in own.items()
        if known.is_at_stake(step)
        and (step.lineage, step.parts) == (taken.lineage, taken.parts)
        and any(number < step.number < taken.number and index not in parts for index, number in before.items())
    ]


def may_skip(known: KeeperRound, own: Iterable[KeptStep], taken: KeptStep) -> bool:
    """Whether a step that was just taken is dropped again for lack of room: an older one waits for its copies.

    The caller drops nothing in its favour then.
    """
    return any(step < taken for step in filter(known.is_at_stake, own))


def most_parts(copies: int) -> int:
    """Return how many parts a node holds at most, beside those of a restored step: G7."""
    return _OWN_STEPS + REPLICAS_OF_A_PART * copies


def outdated(known: KeeperRound, offered: KeptStep, partial: Iterable[KeptStep]) -> list[KeptStep]:
    """Return the steps of which parts have arrived in vain, now that a peer offers this one.

    It is the oldest uncommitted step of that peer. So the floor is as high, or the older ones are committed.
    """
    return sorted({step for step in partial if step < offered and known.is_at_stake(step)})


def latest_point(known: KeeperRound | None, last: SafePoint | None, point: SafePoint) -> SafePoint | None:
    """Return the answer of the commit channel that counts, now that this one follows the last one that counted.

    An earlier leader may send an old one late. One of an earlier round is ignored. All facts of one round stay true.
    """
    if known is not None and point.lineage.round < known.lineage.round:
        return last
    if last is None or last.lineage != point.lineage:
        return point
    return replace(point, committed=_newest(last.committed, point.committed), floor=_newest(last.floor, point.floor))


def _newest(*steps: KeptStep | None) -> KeptStep | None:
    return max((step for step in steps if step is not None), default=None)


def learn(known: KeeperRound, point: SafePoint) -> KeeperRound:
    """Return the knowledge after an answer of the commit channel; one for another round changes nothing."""
    if not known.is_running or point.lineage != known.lineage or point.committed is None:
        return known
    return replace(known, committed=_newest(known.committed, point.committed))


def unneeded(known: KeeperRound, point: SafePoint, held: Iterable[KeptStep]) -> list[KeptStep]:
    """Return the steps to drop after `learn`: all below the committed one, and those at stake below the floor."""
    if not known.is_running or point.lineage != known.lineage:
        return []
    return sorted(step for step in held if _is_below_commit(known, step) or _is_below_floor(known, point, step))


def _is_below_commit(known: KeeperRound, step: KeptStep) -> bool:
    return known.committed is not None and step < known.committed


def _is_below_floor(known: KeeperRound, point: SafePoint, step: KeptStep) -> bool:
    return point.floor is not None and known.is_at_stake(step) and step < point.floor

"""Which step is committed, from what the keepers announce to the leader's keeper.

The answer is a pair of facts: the newest committed step, and the floor. Each fact stays true, so an old answer, a
repeated one, and one of an earlier leader do no harm. A new leader begins without announcements; the committed steps
that keepers know carry on what its predecessor had answered to some.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from elasticjob_agent.keep.rules.persisting import PersistAnnouncement, PersistOrder
from elasticjob_agent.rendezvous.protocol.keep.holders import is_safe
from elasticjob_api.kept_steps import Holdings, KeptStep, Lineage, PersistedStep
from elasticjob_api.rendezvous_state import Member


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcement:
    """The holdings of one keeper, and its knowledge, as it announces them to the leader's keeper."""

    lineage: Lineage
    """The round whose workers the node runs."""
    held: Holdings
    """The parts that nothing but a commit or the floor drops: see `announced` in retention.py."""
    committed: KeptStep | None = None
    oldest_uncommitted: KeptStep | None = None
    """The own step that the keeper copies to others now."""
    is_settled: bool = False
    """Whether nothing is left to do for that step: it has its copies, or no further member takes one."""
    is_restored: bool = False
    """Whether the workers of the node have started."""
    is_overdue: bool = False
    """Whether the node has published several newer steps, while that step waits: see missing_parts.py."""
    persist: PersistAnnouncement | None = None
    """Its knowledge of the shared directory; None if it persists nothing."""

    def is_done_with(self, step: KeptStep) -> bool:
        """Whether this keeper makes no further copies of the step."""
        oldest = self.oldest_uncommitted
        return oldest is None or oldest > step or (oldest == step and self.is_settled)


@dataclass(frozen=True, slots=True)
class SafePoint:
    """The answer of the leader's keeper: the newest committed step, and the floor."""

    lineage: Lineage
    committed: KeptStep | None = None
    floor: KeptStep | None = None
    """The highest of all oldest uncommitted steps: some member has dropped those between, or never had them."""
    order: PersistOrder | None = None
    """The last step that the members are to persist."""
    persisted: PersistedStep | None = None
    """The newest step that any member has found in the shared directory."""
    found: PersistedStep | None = None
    """The newest one that all members have found there: older ones may be removed."""


def decide_safe_point(
    lineage: Lineage,
    announcements: Mapping[Member, Announcement],
    hosts: Mapping[Member, str],
    *,
    copies: int,
    awaits_all: bool = True,
) -> SafePoint:
    """Return what is safe in the round of this lineage; `hosts` names the host of each member.

    Only the members' own announcements of this round count. With `awaits_all`, nothing new is committed before each
    member has restored: a slow one may still fetch a step that a commit would drop.
    """
    current = {member: each for member, each in announcements.items() if member in hosts and each.lineage == lineage}
    committed = [each.committed for each in current.values() if each.committed is not None]
    if not awaits_all or _have_all_restored(current, hosts):
        committed += _newest_copied(current, hosts, copies)
    oldest = [each.oldest_uncommitted for each in current.values() if each.oldest_uncommitted is not None]
    return SafePoint(lineage, max(committed, default=None), max(oldest, default=None))


def _have_all_restored(current: Mapping[Member, Announcement], hosts: Mapping[Member, str]) -> bool:
    return current.keys() == hosts.keys() and all(each.is_restored for each in current.values())


def _newest_copied(current: Mapping[Member, Announcement], hosts: Mapping[Member, str], copies: int) -> list[KeptStep]:
    """Return the newest step that has its copies, in a list; an empty one if no step has."""
    holdings = {member: each.held for member, each in current.items()}
    steps = sorted({step for held in holdings.values() for step in held}, reverse=True)
    for step in steps:
        # A step with a single holder never counts while there are two members: a commit drops what is older and safe.
        least = min(copies, 1) if _is_settled(step, current) else copies
        if is_safe(step, holdings, hosts, least):
            return [step]
    return []


def _is_settled(step: KeptStep, current: Mapping[Member, Announcement]) -> bool:
    """Whether no holder of this step makes further copies of it, and one at least has tried."""
    holders = [each for each in current.values() if step in each.held]
    return all(each.is_done_with(step) for each in holders) and any(each.oldest_uncommitted == step for each in holders)

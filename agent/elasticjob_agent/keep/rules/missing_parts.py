"""The parts without which a step never becomes whole, by what the keepers announce to the leader's keeper.

The floor is the highest of all oldest uncommitted steps. A node that waits there for a part copies no newer step, so
nothing newer is committed.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from elasticjob_agent.keep.rules.commit import Announcement
from elasticjob_api.kept_steps import KeptStep, Lineage, format_parts
from elasticjob_api.rendezvous_state import Member

_MOST_NEWER = 5
"""A rank may publish a step later than others. One that is so many steps behind is named."""


@dataclass(frozen=True, slots=True)
class OldestWait:
    """How long the oldest uncommitted step of a node has waited, in newer steps that the node has published."""

    oldest: KeptStep | None = None
    newest: KeptStep | None = None
    newer: int = 0

    @property
    def is_overdue(self) -> bool:
        """Return whether enough newer steps were published."""
        return self.newer >= _MOST_NEWER

    def after(self, own: Collection[KeptStep], oldest: KeptStep | None) -> "OldestWait":
        """Return the wait when these are the steps with own parts, and `oldest` is the oldest uncommitted one."""
        newest = max(own, default=None)
        if oldest != self.oldest:
            return OldestWait(oldest, newest)
        if newest is None or (self.newest is not None and newest <= self.newest):
            return self
        return OldestWait(oldest, newest, self.newer + 1)


def describe_missing_parts(
    lineage: Lineage, announcements: Mapping[Member, Announcement], members: Collection[Member]
) -> str:
    """Return why a step of this round never becomes whole, for users; empty if each step may still become so.

    Only a round whose members have all announced something, and have started their workers, is looked at.
    """
    current = [each for member, each in announcements.items() if member in members and each.lineage == lineage]
    step = max((each.oldest_uncommitted for each in current if each.oldest_uncommitted is not None), default=None)
    if step is None or step.lineage != lineage or len(current) < len(members):
        return ""
    if not any(each.is_overdue and each.oldest_uncommitted == step for each in current):
        return ""
    if not all(each.is_restored for each in current):
        return ""
    present = frozenset[int]().union(*(each.held.get(step, frozenset()) for each in current))
    return _sentence(step, frozenset(range(step.parts)) - present) if len(present) < step.parts else ""


def _sentence(step: KeptStep, missing: frozenset[int]) -> str:
    parts = f"part{'' if len(missing) == 1 else 's'} {format_parts(missing):.200} of {step.parts}"
    return (
        f"no node has {parts} of step {step.number}, so no newer step is committed; let each rank publish its part of "
        "every step, all with the same count, and look for refused parts in the agents' logs"
    )

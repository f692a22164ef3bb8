"""The next step to free space in etcd, from the sizes and alarms of its members and the steps already taken.

etcd rejects every write once a member's file has reached the quota, and continues to until its alarm is disarmed. Free
pages inside the file count; only defragmentation returns them. It blocks the member meanwhile. So one member is
defragmented at a time, the leader last.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from elasticjob_etcd.members import MemberStatus

FULL = (
    "etcd's database is full (alarm NOSPACE) and accepts no writes: no round can begin and no pod is replaced, but "
    "workers continue to train. Delete data that does not belong in this etcd, or raise its quota: "
    'see "etcd is full" in docs/operations.md'
)
"""The message in the status of every job."""

LOW = 0.8
"""Share of the quota; the file of every member must be smaller before the alarm is disarmed."""
LARGE, WASTEFUL = 0.5, 0.5
"""Defragment early if a file is larger than this share of the quota and less than this share of the file is in use."""


@dataclass(frozen=True, slots=True)
class Compact:
    """Remove the history before this revision."""

    revision: int


@dataclass(frozen=True, slots=True)
class Defragment:
    """Return the free pages of this member's file."""

    member_id: int


@dataclass(frozen=True, slots=True)
class Disarm:
    """End the alarms of these members."""

    member_ids: frozenset[int]


Step = Compact | Defragment | Disarm


@dataclass(frozen=True, slots=True)
class SpaceUsage:
    """The state of the members; `unknown` of them did not answer, those in `full` have an alarm.

    `revision` is the revision to compact up to; `quota` applies to members that do not report their own.
    """

    members: tuple[MemberStatus, ...]
    full: frozenset[int]
    revision: int
    quota: int
    unknown: int = 0


@dataclass(frozen=True, slots=True)
class Reclaimed:
    """The steps already taken. After another compaction a member may be defragmented again."""

    revision: int = 0
    members: frozenset[int] = frozenset()

    def before_check(self, space: "SpaceUsage") -> "Reclaimed":
        """Return the steps that count in a new check of `space`.

        A member whose file is mostly free counts as not yet defragmented: its compaction ended after that.
        """
        wasteful = {member.id for member in space.members if _has_mostly_free_pages(member)}
        return Reclaimed(self.revision, self.members - wasteful)

    def after(self, step: Step) -> "Reclaimed":
        """Return the steps taken, including this one."""
        match step:
            case Compact(revision):
                return Reclaimed(revision)
            case Defragment(member_id):
                return Reclaimed(self.revision, self.members | {member_id})
            case Disarm():
                return self


def next_step(space: SpaceUsage, done: Reclaimed) -> Step | None:
    """Return the next step, one at a time; None if no step helps or none is needed."""
    return _step_when_full(space, done) if space.full else _step_before_full(space, done)


def _step_when_full(space: SpaceUsage, done: Reclaimed) -> Step | None:
    if done.revision < space.revision:
        return Compact(space.revision)
    large = [member for member in space.members if member.db_size > LOW * _quota(space, member)]
    if not large:
        return Disarm(space.full) if space.members else None
    return _defragment(large, done)


def _step_before_full(space: SpaceUsage, done: Reclaimed) -> Step | None:
    if space.unknown:  # a defragmentation blocks a member, and the others may be needed
        return None
    return _defragment((member for member in space.members if _is_wasteful(space, member)), done)


def _is_wasteful(space: SpaceUsage, member: MemberStatus) -> bool:
    return member.db_size > LARGE * _quota(space, member) and _has_mostly_free_pages(member)


def _has_mostly_free_pages(member: MemberStatus) -> bool:
    return member.db_size_in_use < WASTEFUL * member.db_size


def _quota(space: SpaceUsage, member: MemberStatus) -> int:
    return member.quota or space.quota


def _defragment(members: Iterable[MemberStatus], done: Reclaimed) -> Defragment | None:
    left = [member for member in members if member.id not in done.members]
    first = min(left, key=lambda member: (member.is_leader, member.id), default=None)
    return None if first is None else Defragment(first.id)

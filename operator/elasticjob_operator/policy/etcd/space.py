"""PURE: what gives space back to etcd: (sizes and alarms of the members, what was done) → the next step.

etcd refuses every write when a member's file has reached the quota, and goes on refusing until its alarm is ended.
Free pages inside the file count: only defragmentation gives them back. It stops the member meanwhile, so one member
is defragmented at a time, the leader last.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from elasticjob_etcd.members import MemberStatus

FULL = (
    "etcd's database is full (alarm NOSPACE): it takes no writes, so no round begins and no pod is replaced; workers "
    'train on. Delete what does not belong there, or raise its quota: see "etcd is full" in docs/operations.md'
)
"""For the status of every job."""

LOW = 0.8
"""Of the quota: below this every member's file must be before the alarm is ended."""
LARGE, WASTEFUL = 0.5, 0.5
"""A file of more than this part of the quota, of which less than this part is in use, is defragmented in good time."""


@dataclass(frozen=True, slots=True)
class Compact:
    """Forget the history before this revision."""

    revision: int


@dataclass(frozen=True, slots=True)
class Defragment:
    """Give the free pages of this member's file back."""

    member_id: int


@dataclass(frozen=True, slots=True)
class Disarm:
    """End the alarms of these members."""

    member_ids: frozenset[int]


Step = Compact | Defragment | Disarm


@dataclass(frozen=True, slots=True)
class SpaceUsage:
    """What is known of the members now; `unknown` of them did not answer, `full` have an alarm.

    `revision` is compacted up to; `quota` holds for members that do not report their own.
    """

    members: tuple[MemberStatus, ...]
    full: frozenset[int]
    revision: int
    quota: int
    unknown: int = 0


@dataclass(frozen=True, slots=True)
class Reclaimed:
    """What was done already; another compaction makes another defragmentation worth while."""

    revision: int = 0
    members: frozenset[int] = frozenset()

    def after(self, step: Step) -> "Reclaimed":
        """What has been done after this step too."""
        match step:
            case Compact(revision):
                return Reclaimed(revision)
            case Defragment(member_id):
                return Reclaimed(self.revision, self.members | {member_id})
            case Disarm():
                return self


def next_step(space: SpaceUsage, done: Reclaimed) -> Step | None:
    """The next step, one at a time; None when nothing helps or nothing is needed."""
    return _step_when_full(space, done) if space.full else _step_before_full(space, done)


def _step_when_full(space: SpaceUsage, done: Reclaimed) -> Step | None:
    if done.revision < space.revision:
        return Compact(space.revision)
    large = [member for member in space.members if member.db_size > LOW * _quota(space, member)]
    if not large:
        return Disarm(space.full) if space.members else None
    return _defragment(large, done)


def _step_before_full(space: SpaceUsage, done: Reclaimed) -> Step | None:
    if space.unknown:  # the others are needed
        return None
    return _defragment((member for member in space.members if _is_wasteful(space, member)), done)


def _is_wasteful(space: SpaceUsage, member: MemberStatus) -> bool:
    return member.db_size > LARGE * _quota(space, member) and member.db_size_in_use < WASTEFUL * member.db_size


def _quota(space: SpaceUsage, member: MemberStatus) -> int:
    return member.quota or space.quota


def _defragment(members: Iterable[MemberStatus], done: Reclaimed) -> Defragment | None:
    left = [member for member in members if member.id not in done.members]
    first = min(left, key=lambda member: (member.is_leader, member.id), default=None)
    return None if first is None else Defragment(first.id)

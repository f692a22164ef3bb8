"""Which step is persisted next, by which members, and when; and which persisted steps stay.

The leader's keeper orders a step, because all parts of one step have to be written. Members that each chose a step
would write parts of different ones. An order that is lost or fails is given again later.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from elasticjob_agent.rendezvous.protocol.keep.sources import assign_sources, parse_sources
from elasticjob_api.errors import RecordError
from elasticjob_api.kept_steps import History, Holdings, KeptStep, Lineage, PersistedStep
from elasticjob_api.rendezvous_state import Member

RETRY_S = 60.0
"""Seconds after which a step that did not become whole is ordered again, if that is sooner than the next one."""


@dataclass(frozen=True, slots=True)
class PersistOrder:
    """One step that the members of a round write to the shared directory."""

    step: KeptStep
    sources: str
    """Which member writes which part: text of `assign_sources`. Empty if it is long: each writes its own parts."""
    number: int
    """It differs from that of each earlier order, so that a step can be ordered twice."""


@dataclass(frozen=True, slots=True)
class PersistAnnouncement:
    """The knowledge of one keeper about the shared directory."""

    directory: str
    """The id of the directory that it uses; empty as long as it cannot be used."""
    newest: PersistedStep | None = None
    """The newest whole step of this run."""
    is_writing: bool = False
    has_failed: bool = False
    """Whether the directory cannot be used at present."""


class PersistTimer:
    """When the next step is due, in seconds of any clock that never goes back."""

    def __init__(self, every_s: float, *, now_s: float) -> None:
        self._every_s = every_s
        self.due_s = now_s + every_s

    def note_whole(self, now_s: float) -> None:
        """A further step is whole: the next one is due after the whole time."""
        self.due_s = now_s + self._every_s

    def note_order(self, now_s: float) -> None:
        """A step was ordered. Unless it becomes whole, it is ordered again soon."""
        self.due_s = now_s + min(self._every_s, RETRY_S)


def missing_step(found: Iterable[str], wanted: int | None, directory: str) -> str:
    """Return that the directory is not the one in which a step was, without a full stop; empty if it may be."""
    if wanted is None or any(PersistedStep.parse(text).step.number >= wanted for text in found):
        return ""
    return (
        f"{directory} has no step from {wanted} on, which status.keep.persistedStep names; "
        "another volume may be mounted there, or none"
    )


def has_missed_rounds(history: History, followed: Lineage | None) -> bool:
    """Return whether steps may have been persisted while this node was no member.

    `followed` is the last round of which it was a member, and `history` that of the round that forms. All members
    of a round write its steps. So a member lacks only the news that a lost leader has not sent.
    """
    return bool(history.entries) and history.entries[0].lineage != followed


def find_trouble(news: Mapping[Member, PersistAnnouncement], announced: Iterable[Member]) -> str:
    """Return why no step can be persisted, without its full stop; empty if nothing is in the way.

    `announced` are the members that have announced something in the round.
    """
    if without := sorted(member.slot for member in announced if member not in news):
        # Its pod was made by an older operator, for example. Each part has to be written, so no step becomes whole.
        return f"slot {without[0]} has no such directory; delete its pod, or start its agent with --keep-persist-to"
    ids: dict[str, list[int]] = {}
    for member, each in sorted(news.items()):
        ids.setdefault(each.directory, []).append(member.slot)
    ids.pop("", [])
    if len(ids) > 1:
        slots = " and ".join(f"slot {found[0]}" for found in list(ids.values())[:2])
        return f"it is not the same file system on {slots}; mount one shared volume there on all nodes"
    failed = [member.slot for member, each in sorted(news.items()) if each.has_failed]
    return f"slot {failed[0]} cannot use it; its agent's log has the reason" if failed else ""


def next_order(
    news: Mapping[Member, PersistAnnouncement],
    committed: KeptStep | None,
    members: Sequence[Member],
    holdings: Mapping[Member, Holdings],
    *,
    trouble: str,
    number: int,
) -> PersistOrder | None:
    """Return the order that is due; None if there is nothing to persist, or something is in the way.

    `trouble` is that of `find_trouble`.
    """
    if committed is None or not set(members) <= news.keys() or trouble:
        return None
    if any(each.is_writing or not each.directory for each in news.values()):
        return None
    if any(each.newest is not None and each.newest.step >= committed for each in news.values()):
        return None
    return PersistOrder(committed, assign_sources(committed, members, holdings), number)


def found_by_all(news: Mapping[Member, PersistAnnouncement], members: Sequence[Member]) -> PersistedStep | None:
    """Return the newest step that all members have found in the shared directory; None if one has found none.

    Older steps are removed only then. Each later round knows that step: from a member, or from a new list.
    """
    newest = [None if (each := news.get(member)) is None else each.newest for member in members]
    known = [each for each in newest if each is not None]
    return min(known, key=lambda each: each.step, default=None) if len(known) == len(members) else None


def parts_to_write(
    sources: str, step: KeptStep, members: Sequence[Member], me: Member, own: Collection[int]
) -> frozenset[int]:
    """Return the parts of a step that this member writes; `own` are those that it wrote itself in the training."""
    try:
        holders = parse_sources(sources, step, members).holders
    except RecordError:
        holders = None
    if holders is None:
        return frozenset(own)
    return frozenset(part for part, member in holders.items() if member == me)


def eligible(
    found: Mapping[PersistedStep, int], history: History, run: str, *, may_resume: bool
) -> list[PersistedStep]:
    """Return the steps of the shared directory that this training may restore, newest first; `found` has their times.

    A training with a history descends from steps that are in it. Without one it is new: then it may begin from the
    newest step of the run that wrote last, if it `may_resume`.
    """
    if history.entries:
        own = [each for each in found if history.is_alive(each.step) and (may_resume or each.run == run)]
        return sorted(own, key=lambda each: _history_order(history, each), reverse=True)
    return sorted(found, key=_order_of_runs(found), reverse=True) if may_resume else []


def newest_of_lineages(steps: Iterable[PersistedStep]) -> list[PersistedStep]:
    """Return the first step of each lineage, in the same order; the steps are those of `eligible`."""
    found: dict[Lineage, PersistedStep] = {}
    for each in steps:
        found.setdefault(each.step.lineage, each)
    return list(found.values())


def superfluous(
    found: Mapping[PersistedStep, int], history: History, run: str, *, keep: int, in_use: Iterable[PersistedStep] = ()
) -> list[PersistedStep]:
    """Return the whole steps to remove: all but the `keep` newest, and never one that is in use.

    Steps that the training descends from come first, then those of the last earlier runs. Steps of this run that left
    the history are given up, so they go. But a training that could not read the directory begins anew below all of
    them. So the `keep` highest steps from which it does not descend stay until it has passed their number. Steps of a
    later round of this run stay, too: a keeper that was frozen may not know that its round is over.
    """
    alive = sorted(
        (each for each in found if history.is_alive(each.step)), key=lambda each: _history_order(history, each)
    )
    earlier = sorted((each for each in found if each.run != run and each not in alive), key=_order_of_runs(found))
    if not alive:
        return []
    others = (each for each in found if each not in alive and each.step.number > alive[-1].step.number)
    ahead = sorted(others, key=lambda each: (each.step.number, found[each], str(each)))
    present = history.entries[0].lineage.round
    later = (each for each in found if each.run == run and each.step.lineage.round > present)
    kept = {*[*earlier, *alive][-keep:], *ahead[-keep:], *in_use, *later}
    return sorted((each for each in found if each not in kept), key=str)


def surplus(
    found: Mapping[PersistedStep, int], history: History, run: str, *, keep: int, in_use: Iterable[PersistedStep] = ()
) -> list[PersistedStep]:
    """Return the oldest superfluous steps, so that `keep` whole ones are left.

    A job may end again and again before a step is due. Each end writes a step, and no further one makes it superfluous.
    """
    oldest_first = sorted(
        superfluous(found, history, run, keep=keep, in_use=in_use), key=lambda each: (found[each], str(each))
    )
    return oldest_first[: max(0, len(found) - keep)]


def _history_order(history: History, each: PersistedStep) -> tuple[int, KeptStep, str]:
    lineages = [entry.lineage for entry in history.entries]
    return -lineages.index(each.step.lineage), each.step, each.run


def _order_of_runs(found: Mapping[PersistedStep, int]) -> Callable[[PersistedStep], tuple[int, str, KeptStep]]:
    """Return a key that is higher for steps of later runs, and for later steps of one run."""
    # Rounds of two runs cannot be compared, so a time is needed. Within a run it is not: a copy of the volume has other
    # times, and a clock may go back.
    last: dict[str, int] = {}
    for each, at in found.items():
        last[each.run] = max(at, last.get(each.run, at))
    return lambda each: (last[each.run], each.run, each.step)

"""One simulated node: its volume, its workers, its keeper and its view of the state."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from elasticjob_agent.keep.rules.commit import Announcement, SafePoint
from elasticjob_agent.keep.rules.missing_parts import OldestWait
from elasticjob_agent.keep.rules.persisting import PersistAnnouncement
from elasticjob_agent.keep.rules.replication import RoundPlace, own_parts
from elasticjob_agent.keep.rules.retention import KeeperRound, oldest_uncommitted
from elasticjob_api.kept_steps import Holdings, KeptStep, Lineage, PersistedStep
from elasticjob_api.rendezvous_state import Member, RendezvousState
from tests.unit.agent.keep.sim.rules import Rules


class Workers(Enum):
    """The workers of one node."""

    NONE = "none"
    RESTORING = "restoring"
    RUNNING = "running"


@dataclass(eq=False)
class SimNode:
    """One pod with its volume. A restarted agent has the same volume and a new incarnation."""

    member: Member
    is_alive: bool = True
    is_reachable: bool = True
    is_leaving: bool = False
    view: RendezvousState | None = None
    """The newest state that it has received."""
    previous: frozenset[Member] = frozenset()
    """The members of the last active round, as it knows them."""
    ready: int = 0
    workers: Workers = Workers.NONE
    lineage: Lineage | None = None
    """The active state whose workers run, or ran last."""
    known: KeeperRound | None = None
    volume: dict[KeptStep, frozenset[int]] = field(default_factory=dict)
    indices: dict[int, frozenset[int]] = field(default_factory=dict)
    """The indices that its own workers publish in this round, by the count of parts."""
    told: dict[KeptStep, frozenset[int]] = field(default_factory=dict)
    """The parts that it has announced in this round."""
    origins: dict[tuple[KeptStep, int], Lineage] = field(default_factory=dict)
    """The lineage whose workers really wrote a part."""
    published: int = 0
    place: RoundPlace | None = None
    answered: dict[KeptStep, dict[Member, set[int]]] = field(default_factory=dict)
    """The parts that members have got from it, or had already."""
    full: set[int] = field(default_factory=set)
    points: list[SafePoint] = field(default_factory=list)
    """Answers of leaders on their way here."""
    last_point: SafePoint | None = None
    wait: OldestWait = field(default_factory=OldestWait)
    has_keeper: bool = True
    """Whether its keeper could open the volume. Without it the parts there are of no use."""
    can_list: bool = True
    """Whether the shared directory answers here."""
    listed: tuple[PersistedStep, ...] | None = None
    """The steps of its last list of the shared directory; None if that does not count."""
    reported: tuple[PersistedStep, ...] = ()
    """The same list, as it was when the record in the store was written."""
    found: tuple[PersistedStep, ...] = ()
    """The same, as its keeper knows them: whether the list counts makes no difference."""
    removed_for: PersistedStep | None = None
    """The newest step for which it has removed older ones, or which was there when its round began."""

    @property
    def is_here(self) -> bool:
        """Whether others can reach it."""
        return self.is_alive and self.is_reachable

    @property
    def has_parts(self) -> bool:
        """Whether others can get parts from it."""
        return self.is_here and self.has_keeper

    @property
    def is_running(self) -> bool:
        """Whether its workers train."""
        return self.workers is Workers.RUNNING

    def own(self) -> Holdings:
        """Return the parts that it copies to others."""
        if self.known is None or self.place is None:
            return {}
        found = {step: own_parts(self.known, step, self.place, self.indices, self.volume) for step in self.volume}
        return {step: parts for step, parts in found.items() if parts}

    def counted(self) -> set[KeptStep]:
        """Return the steps whose own parts it has announced."""
        return {step for step, parts in self.own().items() if parts & self.told.get(step, frozenset())}

    def oldest(self) -> KeptStep | None:
        """Return its oldest uncommitted step."""
        return None if self.known is None else oldest_uncommitted(self.known, self.own())

    def newest_found(self) -> PersistedStep | None:
        """Return the newest step of its run that it has found in the shared directory."""
        if self.view is None:
            return None
        history = self.view.kept_history()
        history = history if self.lineage is None else history.with_lineage(self.lineage)
        own = [each for each in self.found if each.run == self.view.run and history.is_alive(each.step)]
        return max(own, key=lambda each: each.step, default=None)

    def may_remove(self, point: SafePoint) -> bool:
        """Whether this answer lets it remove older steps than the newest one."""
        is_of_round = self.is_running and point.lineage == self.lineage
        return is_of_round and point.found is not None and point.found == self.newest_found() != self.removed_for

    def announcement(self, rules: Rules, *, is_settled: bool) -> Announcement:
        """Return the announcement of its keeper."""
        assert self.known is not None
        self.wait = self.wait.after(self.own(), self.oldest())
        return Announcement(
            lineage=self.known.lineage,
            held=dict(rules.announced(self.known, self.own(), self.volume)),
            committed=self.known.committed,
            oldest_uncommitted=self.oldest(),
            is_settled=is_settled,
            is_restored=self.is_running,
            is_overdue=self.wait.is_overdue,
            persist=PersistAnnouncement("id", self.newest_found()),
        )

    def add(self, step: KeptStep, index: int, origin: Lineage) -> None:
        """Hold this part, too."""
        self.volume[step] = self.volume.get(step, frozenset()) | {index}
        self.origins[step, index] = origin

    def drop(self, step: KeptStep, parts: Iterable[int] | None = None) -> None:
        """Hold these parts no more; without `parts` the whole step."""
        left = frozenset[int]() if parts is None else self.volume.get(step, frozenset()) - frozenset(parts)
        if left:
            self.volume[step] = left
        else:
            self.volume.pop(step, None)

    def stop_workers(self) -> None:
        """Stop its workers; its keeper drops nothing until the next active state."""
        self.workers, self.known, self.place = Workers.NONE, None, None
        self.wait = OldestWait()
        self.answered.clear()
        self.full.clear()

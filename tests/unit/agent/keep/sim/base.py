"""The parts of a simulated job: nodes, the store, the leaders; and small questions about them."""

from dataclasses import dataclass, field

from elasticjob_agent.keep.rules.commit import Announcement
from elasticjob_api.holdings import HoldingsRecord
from elasticjob_api.kept_steps import History, KeptStep, Lineage, PersistedStep
from elasticjob_api.rendezvous_state import (
    Member,
    RendezvousState,
    RoundPhase,
)
from tests.unit.agent.keep.sim.checks import Line, Truth, check_node
from tests.unit.agent.keep.sim.node import SimNode
from tests.unit.agent.keep.sim.rules import Rules

RUN = "run"


@dataclass
class NodeKey:
    """The node key and the holdings key of one incarnation."""

    ready: int
    record: HoldingsRecord
    is_leaving: bool = False


@dataclass
class Store:
    """etcd, as far as it matters here."""

    state: RendezvousState | None = None
    keys: dict[Member, NodeKey] = field(default_factory=dict)
    previous: frozenset[Member] = frozenset()
    """The members of the last active round."""
    is_quiet: bool = False
    """Whether it was wiped, and all agents get time to rejoin."""


@dataclass
class LeaderKeeper:
    """The keeper of one leader: the round that it knows, and the newest announcement of each member."""

    state: RendezvousState | None = None
    announcements: dict[Member, Announcement] = field(default_factory=dict)


class JobBase:
    """The state of the job."""

    def __init__(
        self,
        nodes: int,
        *,
        layout: str = "sharded",
        highest: int = 3,
        copies: int = 1,
        rules: Rules | None = None,
        persist_keep: int = 2,
        other_runs: tuple[PersistedStep, ...] = (),
    ) -> None:
        self.rules, self.layout, self.highest, self.copies = rules or Rules(), layout, highest, copies
        self._drawn = self._runs = 0
        self.truth = Truth(copies)
        self.persist_keep, self.persisted = persist_keep, [*other_runs]
        self.unknown: set[PersistedStep] = set()
        """Steps of the shared directory that no node knew when a round closed."""
        self.late: set[PersistedStep] = set()
        """Steps of the shared directory that became whole since the forming round was opened."""
        self.marks: dict[KeptStep, frozenset[int]] = {}
        self.trained: dict[Lineage, int] = {}
        self.worlds: dict[Lineage, tuple[Member, ...]] = {}
        first = RendezvousState(phase=RoundPhase.FORMING, round=1, nonce=self._draw(), run=RUN)
        self.lines = {first.nonce: Line()}
        self.store = Store(first)
        self.past = [(first, frozenset[Member]())]
        self.leaders = [LeaderKeeper(), LeaderKeeper()]
        self.nodes = [SimNode(Member(slot, self._draw())) for slot in range(nodes)]
        self.wanted = nodes

    def _draw(self) -> str:
        self._drawn += 1
        return f"{self._drawn:08x}"

    # -- what is the case ----------------------------------------------------------------------------

    @property
    def active(self) -> RendezvousState | None:
        """The state, if it is active."""
        state = self.store.state
        return state if state is not None and state.phase is RoundPhase.ACTIVE else None

    def line(self) -> Line:
        """Return what the training really descends from now."""
        state = self.store.state
        if state is None:
            return Line()
        line = self.lines[state.nonce]
        return line.went_on(lineage_of(state)) if state.phase is RoundPhase.ACTIVE else line

    def find(self, member: Member) -> SimNode | None:
        """Return the live node of this incarnation."""
        return next((node for node in self.nodes if node.member == member and node.is_alive), None)

    def has_key(self, node: SimNode) -> bool:
        """Whether its node key exists."""
        return node.member in self.store.keys

    def _may_write(self, node: SimNode) -> bool:
        return node.is_here and self.has_key(node) and not self.store.is_quiet

    def _is_current(self, node: SimNode) -> bool:
        """Whether it runs the active round, and knows that."""
        return self.active is not None and node.view == self.active and node.lineage == lineage_of(self.active)

    def _index(self, node: SimNode, lineage: Lineage) -> int | None:
        """Return the part that this node's workers publish; None if they publish none."""
        members = self.worlds[lineage]
        rank = members.index(node.member) if node.member in members else None
        if self.layout == "sharded" or rank is None:
            return rank
        return 0 if self.layout == "copies" or rank == 0 else None

    def _checked(self) -> bool:
        self.truth.note_whole(self.line(), self.nodes)
        for node in self.nodes:
            check_node(node)
        return True


def lineage_of(state: RendezvousState) -> Lineage:
    """Return the lineage of an active state."""
    return Lineage(state.round, state.nonce)


def present_history(state: RendezvousState) -> History:
    """Return the steps that the training descends from, also in the active round."""
    history = state.kept_history()
    return history.with_lineage(lineage_of(state)) if state.phase is RoundPhase.ACTIVE else history

"""Steps that simulated nodes keep: the volume of each node, and the invariants of what is restored.

A volume keeps every part until the history drops it; which parts a real keeper drops earlier is not simulated. A keeper
takes a published part late: at the seal, or when it is copied or another one follows.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from elasticjob_agent.rendezvous.protocol.interfaces import KeepPort
from elasticjob_agent.rendezvous.protocol.member_plan import RestorePhase
from elasticjob_agent.rendezvous.protocol.ranks import Assignment, rank_of
from elasticjob_api.holdings import HoldingsRecord
from elasticjob_api.kept_steps import KeptStep, Lineage
from elasticjob_api.keys import Keys
from elasticjob_api.records import NO_ROUND
from elasticjob_api.rendezvous_state import Cause, Member, RendezvousState, RoundPhase, decode_state
from elasticjob_api.rendezvous_view import RendezvousView
from tests.unit.rendezvous.sim.store import SimStore

Volume = dict[KeptStep, set[int]]
Line = tuple[tuple[Lineage, int | None], ...]
"""The steps that the training descends from, newest first, as this test derives them."""


class SimKeep(KeepPort):
    """The keeper of one node; `others` returns the volumes of all live nodes."""

    def __init__(self, others: Callable[[], list[Volume]], on_failure: Callable[[], None]) -> None:
        self.on_change = lambda: None
        self.volume: Volume = {}
        self.slow = False
        """Whether a fetch takes longer than the test lasts."""
        self._others = others
        self._on_failure = on_failure
        self._published: tuple[KeptStep, int] | None = None
        """The part that the workers published last, if the keeper has not taken it yet."""
        self._me: Member | None = None
        self._run = ""
        self._phases: dict[str, RestorePhase] = {}

    @property
    def holdings(self) -> HoldingsRecord:
        """All parts of the volume that the keeper has taken."""
        taken = {
            step: frozenset(p for p in parts if (step, p) != self._published) for step, parts in self.volume.items()
        }
        return HoldingsRecord(port=1, steps={step: parts for step, parts in taken.items() if parts})

    async def seal(self) -> None:
        """Take the part that was published last."""
        self._published = None

    def observe(self, me: Member, *, link_secret: bytes | None, leads: bool) -> None:  # noqa: ARG002 -- volumes are copied by the test
        """Take in this node's session."""
        self._me = me

    def report_start(self) -> None:
        """Do nothing: nothing is dropped for a newer step."""

    def lingers(self, _state: RendezvousState) -> bool:
        """Return False: a node leaves as soon as it has reported what it has."""
        return False

    def restore_phase(self, state: RendezvousState) -> RestorePhase:
        """Drop what the state has given up, fetch what is missing at a member, and return how far that is."""
        if state.phase is not RoundPhase.ACTIVE or self._me is None:
            return RestorePhase.NOT_NEEDED
        if state.nonce not in self._phases:
            self._drop_dead(state)
            # As in the product, only a member fetches. So the holdings that another node joined with stay exact.
            step = None if rank_of(state, self._me) is None else state.step_to_restore()
            phase = self._fetch(step)
            if phase is RestorePhase.FETCHING:
                return phase
            if phase is RestorePhase.FAILED:
                self._on_failure()
            self._phases[state.nonce] = phase
        return self._phases[state.nonce]

    def _drop_dead(self, state: RendezvousState) -> None:
        history = state.kept_history().with_lineage(Lineage(state.round, state.nonce))
        is_same_run, self._run = state.run == self._run, state.run
        self.volume = {s: parts for s, parts in self.volume.items() if is_same_run and history.is_alive(s)}

    def _fetch(self, step: KeptStep | None) -> RestorePhase:
        if step is None:
            return RestorePhase.NOT_NEEDED
        if self.has_whole(step):
            return RestorePhase.COMPLETE
        if self.slow:
            return RestorePhase.FETCHING
        found = set[int]().union(*(volume.get(step, set()) for volume in self._others()))
        if len(found) < step.parts:
            return RestorePhase.FAILED
        self.volume[step] = found
        return RestorePhase.COMPLETE

    def has_whole(self, step: KeptStep) -> bool:
        """Whether each part of the step is here."""
        return len(self.volume.get(step, ())) == step.parts

    def publish(self, place: Assignment) -> None:
        """Take this node's own part of the next step that its workers write."""
        lineage = Lineage(place.round, place.nonce)
        own = [s.number for s, parts in self.volume.items() if s.lineage == lineage and place.group_rank in parts]
        step = KeptStep(lineage, 1 + max(own, default=0), place.group_world_size)
        self.volume.setdefault(step, set()).add(place.group_rank)
        self._published = step, place.group_rank

    def copy_to(self, other: "SimKeep") -> bool:
        """Copy all parts of the newest step to another node; return whether there is one."""
        if not self.volume:
            return False
        step, self._published = max(self.volume), None
        other.volume.setdefault(step, set()).update(self.volume[step])
        return True


@dataclass
class KeepChecker:
    """The invariants of the restored step, checked at the revision of each state."""

    store: SimStore
    keys: Keys
    volumes: Callable[[], Mapping[str, Volume]]
    """Pod → its volume, also of pods that have ended."""
    view: Callable[[], RendezvousView]
    lines: dict[str, Line] = field(default_factory=dict)
    """Nonce of a state → the steps that it may descend from."""
    offers: dict[str, KeptStep | None] = field(default_factory=dict)
    """Nonce of an active state → the step that it restores."""
    restored: int = 0
    _current: RendezvousState | None = None

    def __post_init__(self) -> None:
        self.store.listeners.add(self.observe)

    def observe(self) -> None:
        """Check the newest state, if it is another one."""
        kv = self.store.get(self.keys.rendezvous_state)
        state, before = None if kv is None else decode_state(kv.value), self._current
        self._current = state
        if state is None or state.nonce in self.lines:
            return
        line = self._line_before(before, state)
        if state.phase is RoundPhase.ACTIVE:
            self._check_offer(state, line)
            line = _cut(line, state.step_to_restore())
            self.offers[state.nonce] = state.step_to_restore()
        self.lines[state.nonce] = line
        self._check_history(state, line)

    def _line_before(self, before: RendezvousState | None, state: RendezvousState) -> Line:
        if before is None or before.run != state.run:
            return ()
        line = self.lines[before.nonce]
        if before.phase is not RoundPhase.ACTIVE or state.phase is RoundPhase.ACTIVE or state.phase.is_final:
            return line
        line = ((Lineage(before.round, before.nonce), None), *line)
        failed = self.offers[before.nonce] if state.cause is Cause.RESTORE_FAILED else None
        return line if failed is None else tuple(_strike(entry, failed) for entry in line)

    @staticmethod
    def _check_history(state: RendezvousState, line: Line) -> None:
        """K6: the history never has more than the line."""
        most = dict(line)
        for entry in state.kept_history().entries:
            assert entry.lineage in most, f"K6: {entry} is of a branch that was given up"
            limit = most[entry.lineage]
            assert limit is None or (entry.highest is not None and entry.highest <= limit), (
                f"K6: {entry} is above {limit}"
            )

    def _check_offer(self, state: RendezvousState, line: Line) -> None:
        step, view, volumes = state.step_to_restore(), self.view(), self.volumes()
        live = {view.nodes[member].record.pod for member in view.agents().values()}
        if step is not None:
            self.restored += 1
            assert _is_in(line, step), f"K6: {step} is of a branch that was given up"
            assert _is_whole(step, [volumes[pod] for pod in live]), f"K1: {step} is not whole"
        # These nodes have reported all of their parts: they stopped their workers before, or never ran any. A node that
        # was never a member has what it joined with.
        exact = {node.record.pod for node in view.nodes.values() if node.record.ready in {state.round, NO_ROUND}}
        sure = [volumes[pod] for pod in live & exact]
        whole = {each for volume in sure for each in volume if _is_in(line, each) and _is_whole(each, sure)}
        newest = max(whole, key=lambda each: _age(line, each), default=None)
        assert newest is None or (step is not None and _age(line, step) >= _age(line, newest)), (
            f"K4: {step} is restored, though {newest} is whole"
        )

    def check_start(self, keep: SimKeep, place: Assignment) -> None:
        """K3: workers start only where the step of their round is whole."""
        step = self.offers[place.nonce]
        assert step is None or keep.has_whole(step), f"K3: round {place.round} started without {step}"


def _strike(entry: tuple[Lineage, int | None], step: KeptStep) -> tuple[Lineage, int | None]:
    lineage, highest = entry
    return (lineage, step.number - 1) if lineage == step.lineage else (lineage, highest)


def _cut(line: Line, step: KeptStep | None) -> Line:
    """Return the line of a training that goes on from this step."""
    if step is None:
        return ()
    place = [lineage for lineage, _ in line].index(step.lineage)
    return ((step.lineage, step.number), *line[place + 1 :])


def _is_in(line: Line, step: KeptStep) -> bool:
    most = dict(line)
    limit = most.get(step.lineage, -1)
    return limit is None or step.number <= limit


def _age(line: Line, step: KeptStep) -> tuple[int, int]:
    return -[lineage for lineage, _ in line].index(step.lineage), step.number


def _is_whole(step: KeptStep, volumes: list[Volume]) -> bool:
    return len(set[int]().union(*(volume.get(step, set()) for volume in volumes))) == step.parts

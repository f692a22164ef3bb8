"""The invariants of docs/architecture/rendezvous.md, checked at the revision at which each event happens.

The checker reads the store's own history, never the state in an agent; the workers report their starts to it.
"""

from collections import defaultdict
from dataclasses import dataclass, field

from elasticjob_agent.rendezvous.protocol import ranks
from elasticjob_agent.rendezvous.protocol.ranks import Assignment
from elasticjob_api import records, rendezvous_state
from elasticjob_api.keys import Keys
from elasticjob_api.records import NO_ROUND, NodeRecord, TombstoneReason
from elasticjob_api.rendezvous_state import Cause, Member, Membership, RendezvousState, RoundPhase
from elasticjob_api.rendezvous_view import RendezvousView, parse_view
from elasticjob_etcd.interface import KeyValue
from elasticjob_etcd.memory.store import InMemoryStore


@dataclass
class InvariantChecker:
    """The history of one job, as far as the invariants need it."""

    store: InMemoryStore
    keys: Keys
    revision: int = 1
    states: list[RendezvousState] = field(default_factory=list)
    epoch: list[RendezvousState] = field(default_factory=list)
    """The states of the current store, since it was wiped or restored."""
    membership: Membership | None = None
    """The members of the last active round."""
    nodes: dict[Member, NodeRecord] = field(default_factory=dict)
    """The last record of each node key."""
    reported: set[tuple[Member, int]] = field(default_factory=set)
    """Each (member, round) for which `ready` was written."""
    joined: dict[Member, tuple[int, str] | None] = field(default_factory=dict)
    """(round, nonce) of the state when a node key was created."""
    started: dict[tuple[int, str, int], Member] = field(default_factory=dict)
    succeeded: set[tuple[int, Member]] = field(default_factory=set)
    """Members whose workers of a round all exited with code 0."""
    verdicts: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    """Round of a membership → number of verdicts on it."""
    genuine: set[int] = field(default_factory=set)
    """Rounds that an agent ended because its worker failed."""

    deleted: bool = False
    """Whether the test has deleted the job."""
    wipes: int = 0
    """Number of wipes and restores; most counts start again with each."""
    skipped: set[Member] = field(default_factory=set)
    """Sessions without a key when a round began: their old workers were excused then, and are after a wipe, too."""
    nonces: set[str] = field(default_factory=set)
    """The nonces of all states: a state with one of them was written back."""

    _cluster_id: int = 0
    _view: RendezvousView = field(default_factory=RendezvousView)
    _view_at: int = 0

    def __post_init__(self) -> None:
        self._cluster_id = self.store.cluster_id
        self.store.listeners.add(self.observe)

    @property
    def state(self) -> RendezvousState | None:
        """The current state."""
        return self.epoch[-1] if self.epoch else None

    def observe(self) -> None:
        """Check each new event; called after every revision."""
        if self._cluster_id != self.store.cluster_id:
            self._start_store_epoch()
            return
        for event in self.store.events_since(self.revision + 1, self.keys.control):
            parsed = self.keys.parse(event.kv.key)
            assert parsed is not None, f"a key outside the layout: {event.kv.key}"
            if parsed.kind == "node" and not event.deleted:
                self._observe_node(Member(parsed.slot or 0, parsed.incarnation or ""), event.kv)
            elif parsed.kind == "world":
                if event.deleted:
                    assert self.deleted, "the job was deleted"
                    continue
                assert not self.deleted, "15: a deleted job began again"
                self._observe_state(rendezvous_state.decode_state(event.kv.value))
            elif parsed.kind == "members" and self.wipes:
                self.membership = self.view().membership  # written back
        self.revision = self.store.revision

    def _start_store_epoch(self) -> None:
        """Begin the epoch of another store; its present data were restored."""
        self._cluster_id, self.revision = self.store.cluster_id, self.store.revision
        self.wipes += 1
        self._view_at = -1
        view = self.view()
        self.epoch = [] if view.state is None else [view.state]
        self.membership = view.membership
        self.verdicts.clear()

    def view(self) -> RendezvousView:
        """Return the current view; not to be changed."""
        if self._view_at != self.store.revision:
            self._view = parse_view(self.keys, self.store.range(self.keys.everything).kvs)
            self._view_at = self.store.revision
        return self._view

    # -- nodes (17) ------------------------------------------------------------------------------

    def _observe_node(self, member: Member, kv: KeyValue) -> None:
        node = records.decode(NodeRecord, kv.value)
        if kv.version == 1:
            self._observe_join(member, node)
        self.nodes[member] = node
        self.reported.add((member, node.ready))

    def _observe_join(self, member: Member, node: NodeRecord) -> None:
        current = self.state
        here = None if current is None else (current.round, current.nonce)
        tombstone = self.store.get(self.keys.tombstone(member.slot, member.incarnation))
        assert tombstone is None, f"17: {member} rejoined although it has a tombstone"
        if member in self.joined:
            assert current is not None
            assert current.phase is RoundPhase.ACTIVE, f"17: {member} was put back while {current.phase}"
            assert member in current.members, f"17: {member} was put back although it is no member"
        else:
            assert node.ready == NO_ROUND, f"17: {member} was created with ready={node.ready}"
        self.joined[member] = here

    # -- states ----------------------------------------------------------------------------------

    def _observe_state(self, new: RendezvousState) -> None:
        old, view = self.state, self.view()
        if new.nonce in self.nonces:
            self._check_written_back(old, new)
            self.membership = view.membership
            self._note(new)
            return
        if old is not None:
            self._check_order(old, new)
        if new.phase is RoundPhase.FORMING and new.cause is Cause.WORKER_FAILED and (not old or new.round > old.round):
            self.genuine.add(new.round - 1)
        if old is not None and old.phase is RoundPhase.FORMING:
            self._check_verdict(view, old, new)
        if new.phase is RoundPhase.ACTIVE:
            self._check_active(view, new)
            self.membership = view.membership
            self.skipped |= self.joined.keys() - view.nodes.keys()
        if new.phase is RoundPhase.SUCCEEDED:
            missing = [member for member in new.members if (new.round, member) not in self.succeeded]
            assert not missing, f"6: succeeded although {missing} did not exit 0"
        assert new.restarts <= len(self.genuine), "5: more restarts than rounds that failed"
        self._note(new)

    def _note(self, new: RendezvousState) -> None:
        self.states.append(new)
        self.epoch.append(new)
        self.nonces.add(new.nonce)

    def _check_written_back(self, old: RendezvousState | None, new: RendezvousState) -> None:
        """11: a state is written back only after a wipe, unchanged, and only over none or a lower one."""
        assert self.wipes, "4: a state was written twice"
        assert new in self.states, f"11: {new} never existed"
        assert old is None or (new.order, new.has_verdict) > (old.order, old.has_verdict), (
            f"11: {new.order} over {old.order}"
        )

    @staticmethod
    def _check_order(old: RendezvousState, new: RendezvousState) -> None:
        assert not old.phase.is_final, f"6: {new.phase} after {old.phase}"
        assert new.order >= old.order, f"4: {new.order} after {old.order}"
        if new.round > old.round:
            assert new.round == old.round + 1
            assert (new.phase, old.phase in {RoundPhase.ACTIVE, RoundPhase.SUSPENDED}) == (RoundPhase.FORMING, True), (
                "4: wrong step"
            )
            assert new.restarts == old.restarts, "opening a round charged a failure"
        elif new.order == old.order:
            assert (new.phase, old.has_verdict, new.has_verdict) == (RoundPhase.FORMING, False, True), (
                "4: written twice"
            )
        assert new.nonce != old.nonce

    def _check_verdict(self, view: RendezvousView, old: RendezvousState, new: RendezvousState) -> None:
        """5 and 16: a round is charged once, for a genuine failure, whenever all members were there."""
        added, lost = new.restarts - old.restarts, new.node_losses - old.node_losses
        over = new.cause is Cause.MAX_RESTARTS
        judged = new.phase is not RoundPhase.SUSPENDED and not old.has_verdict and self.membership is not None
        assert (added, lost) in {(0, 0), (1, 0), (0, 1)}, f"5: +{added} restarts, +{lost} losses"
        if not judged or self.membership is None:
            assert (added, lost) == (0, 0), "16: a second verdict"
            return
        round_ = self.membership.round
        self.verdicts[round_] += 1
        assert self.verdicts[round_] == 1, f"16: the members of round {round_} got two verdicts"
        if added or over:
            assert round_ in self.genuine, "5: charged without a genuine failure"
        missing = missing_members(view, self.membership)
        if lost:
            assert any(not has_left(view, member) for member in missing), "5: a loss without one"
        if self.wipes:
            return  # the failures of an agent are not written back
        if round_ in self.genuine and not missing and new.cause is not Cause.OPERATOR:
            assert added == 1 or over, f"5: round {round_} failed with all members there, and was not charged"

    def _check_active(self, view: RendezvousView, new: RendezvousState) -> None:
        assert view.spec is not None
        assert new.restarts <= view.spec.max_restarts, "5: active after more than max_restarts"
        assert len({member.slot for member in new.members}) == len(new.members) > 0
        places = [ranks.assignment(new, rank) for rank in range(len(new.members))]
        everyone = [place.base_rank + i for place in places for i in range(place.nproc)]
        assert everyone == list(range(places[0].world_size)), "2: ranks are not a bijection"
        for member in new.members:
            self._check_member(view, new, member)

    def _check_member(self, view: RendezvousView, new: RendezvousState, member: Member) -> None:
        before = () if self.membership is None else self.membership.members
        idle = (member, NO_ROUND) in self.reported and member not in before
        assert (member, new.round) in self.reported or idle, f"2: {member} did not report ready for {new.round}"
        assert view.spec is not None
        if view.spec.operator is not None:
            owner = view.spec.owner(member.slot)
            assert owner is not None, f"15: no pod owns slot {member.slot}"
            assert owner.pod == self.nodes[member].pod, f"15: slot {member.slot} belongs to {owner.pod}"

    # -- workers ---------------------------------------------------------------------------------

    def observe_start(self, member: Member, place: Assignment) -> None:
        """1: (round, nonce, slot) is started by one incarnation, once."""
        key = (place.round, place.nonce, member.slot)
        assert key not in self.started, f"1: {key} was started by {self.started[key]}, then by {member}"
        self.started[key] = member
        assert any(w.nonce == place.nonce and w.phase is RoundPhase.ACTIVE for w in self.states), (
            "started without a state"
        )

    def is_excused(self, member: Member) -> bool:
        """3: its key is gone or it has a tombstone; or both was so before a wipe, and a round began without it."""
        if self.wipes and member in self.skipped:
            return True
        if self.store.get(self.keys.node(member.slot, member.incarnation)) is None:
            return True
        kv = self.store.get(self.keys.tombstone(member.slot, member.incarnation))
        return kv is not None and records.decode(records.Tombstone, kv.value).reason is not TombstoneReason.LEFT


def missing_members(view: RendezvousView, membership: Membership | None) -> list[Member]:
    """Return members of the last active round that left or were lost and are not done; written from the design."""
    if membership is None:
        return []
    return [
        member
        for member in membership.members
        if not view.has_completed(membership.round, member)
        and (member not in view.nodes or member in view.tombstones or view.nodes[member].record.leaving)
    ]


def has_left(view: RendezvousView, member: Member) -> bool:
    """Whether the member left in order; written from the design."""
    tombstone, node = view.tombstones.get(member), view.nodes.get(member)
    return (tombstone is not None and tombstone.reason is TombstoneReason.LEFT) or (
        node is not None and node.record.leaving
    )

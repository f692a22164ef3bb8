"""The keys below one job's prefix, decoded, at one revision of etcd.

All of it is the job's claim about itself, so it decides about that job only. Records that cannot be decoded are named
in `unreadable` and left out.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from elasticjob_api.keys import FailureKey
from elasticjob_api.records import Completion, NodeRecord, NodeReport, SpecRecord, Tombstone, WorkerFailure
from elasticjob_api.rendezvous_state import Member, Membership, RendezvousState, RoundPhase


@dataclass(frozen=True, slots=True)
class NodeEntry:
    """An existing node key: the session of one agent whose lease is alive."""

    record: NodeRecord
    lease: int
    create_revision: int


@dataclass(frozen=True, kw_only=True)
class RendezvousView:
    """One job at one revision; derived values are computed once.

    The revision of a key that does not exist is 0; that of a key that cannot be decoded is -1.
    """

    revision: int = 0
    spec: SpecRecord | None = None
    spec_revision: int = 0
    world: RendezvousState | None = None
    world_revision: int = 0
    membership: Membership | None = None
    expected: frozenset[int] = frozenset()
    nodes: Mapping[Member, NodeEntry] = field(default_factory=dict)
    reports: Mapping[Member, NodeReport] = field(default_factory=dict)
    failures: Mapping[FailureKey, WorkerFailure] = field(default_factory=dict)
    completions: Mapping[tuple[int, int], Completion] = field(default_factory=dict)
    """Completions by round and slot."""
    tombstones: Mapping[Member, Tombstone] = field(default_factory=dict)
    unreadable: tuple[str, ...] = ()
    empty: bool = True
    """Whether there is no key at all."""
    quota_violation: str = ""
    """How the job exceeds its quota in etcd; then only the spec record is in the view."""

    @property
    def is_final(self) -> bool:
        """Whether the rendezvous has ended, or is being ended."""
        return bool(self.quota_violation) or (self.world is not None and self.world.state.is_final)

    @property
    def active_state(self) -> RendezvousState | None:
        """The rendezvous state if a round is active."""
        return self.world if self.world is not None and self.world.state is RoundPhase.ACTIVE else None

    @property
    def closed_round(self) -> int:
        """The last round that became active; 0 before the first."""
        if self.active_state is not None:
            return self.active_state.round
        return self.membership.round if self.membership else 0

    @property
    def is_unreadable(self) -> bool:
        """Whether the spec record or the rendezvous state exists and cannot be decoded, so that no plan may be made."""
        return (self.spec is None and self.spec_revision != 0) or (self.world is None and self.world_revision != 0)

    def owners(self) -> Mapping[int, str]:
        """Return slot → name of the pod that owns it."""
        return self._owners

    @cached_property
    def _owners(self) -> Mapping[int, str]:
        return {slot: owner.pod for slot, owner in self.spec.slots.items()} if self.spec else {}

    def completed_slots(self) -> frozenset[int]:
        """Return the slots of the active round whose member has finished; they are kept while that round lasts."""
        return self._completed_slots

    @cached_property
    def _completed_slots(self) -> frozenset[int]:
        world = self.active_state
        return frozenset(m.slot for m in world.members if self.has_completed(world.round, m)) if world else frozenset()

    def has_completed(self, round_: int, member: Member) -> bool:
        """Return whether all workers of this member exited with code 0 in this round."""
        done = self.completions.get((round_, member.slot))
        return done is not None and done.incarnation == member.incarnation

    def live_members(self) -> tuple[Member, ...]:
        """Return the members of the active round that have a live lease or have finished, in rank order."""
        return self._live_members

    @cached_property
    def _live_members(self) -> tuple[Member, ...]:
        world = self.active_state
        if world is None:
            return ()
        return tuple(
            member
            for member in world.members
            if (member in self.nodes and member not in self.tombstones) or self.has_completed(world.round, member)
        )

    def agents(self) -> Mapping[str, Member]:
        """Return pod uid → the newest session of its agent; sessions with a tombstone are left out."""
        return self._agents

    @cached_property
    def _agents(self) -> Mapping[str, Member]:
        sessions = sorted(self.nodes.items(), key=lambda item: item[1].create_revision)
        return {node.record.pod_uid: member for member, node in sessions if member not in self.tombstones}

"""PURE: what the operator sees below one job's prefix, parsed, as of one revision of etcd.

Everything here is a claim of the job about itself: it decides about that job only. Records that could not be
read are named in `unreadable` and left out.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from elasticjob_api.records import Completion, NodeRecord, NodeReport, SpecRecord, Tombstone, WorkerFailure
from elasticjob_api.rendezvous_state import Member, Membership, RendezvousState, RoundPhase


@dataclass(frozen=True, slots=True)
class NodeEntry:
    """A node key that exists: the stay of one agent whose lease lives."""

    record: NodeRecord
    lease: int
    create_revision: int


@dataclass(frozen=True, kw_only=True)
class RendezvousView:
    """One job at one revision; what follows from it is computed once.

    The revision of a key that does not exist is 0, of one that cannot be read -1.
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
    failures: Mapping[str, WorkerFailure] = field(default_factory=dict)
    """By their name below `P/c/failures/`, as `RendezvousState.root` spells it."""
    completions: Mapping[tuple[int, int], Completion] = field(default_factory=dict)
    """By round and slot."""
    tombstones: Mapping[Member, Tombstone] = field(default_factory=dict)
    unreadable: tuple[str, ...] = ()
    empty: bool = True
    """There is no key at all."""
    quota_violation: str = ""
    """The job's excess over its allowance in etcd; then nothing of it but the spec is shown."""

    @property
    def is_final(self) -> bool:
        """The rendezvous has come to its end, or is put to one."""
        return bool(self.quota_violation) or (self.world is not None and self.world.state.is_final)

    @property
    def is_active(self) -> RendezvousState | None:
        """The world, if a round is active."""
        return self.world if self.world is not None and self.world.state is RoundPhase.ACTIVE else None

    @property
    def closed_round(self) -> int:
        """The last round that became active; 0 before the first."""
        if self.is_active is not None:
            return self.is_active.round
        return self.membership.round if self.membership else 0

    @property
    def is_unreadable(self) -> bool:
        """Spec or world exist and cannot be read: nothing may be planned from half of the truth."""
        return (self.spec is None and self.spec_revision != 0) or (self.world is None and self.world_revision != 0)

    def owners(self) -> Mapping[int, str]:
        """Slot → name of the pod that owns it."""
        return self._owners

    @cached_property
    def _owners(self) -> Mapping[int, str]:
        return {int(slot, 16): owner.pod for slot, owner in self.spec.slots.items()} if self.spec else {}

    def completed_slots(self) -> frozenset[int]:
        """Slots of the active round whose member has finished: they are kept while that round stands."""
        return self._completed_slots

    @cached_property
    def _completed_slots(self) -> frozenset[int]:
        world = self.is_active
        return frozenset(m.slot for m in world.members if self.has_completed(world.round, m)) if world else frozenset()

    def has_completed(self, round_: int, member: Member) -> bool:
        """All workers of this member exited 0 in this round."""
        done = self.completions.get((round_, member.slot))
        return done is not None and done.incarnation == member.incarnation

    def live_members(self) -> tuple[Member, ...]:
        """Members of the active round, in rank order, whose agent's lease lives, or which have finished."""
        return self._live_members

    @cached_property
    def _live_members(self) -> tuple[Member, ...]:
        world = self.is_active
        if world is None:
            return ()
        return tuple(
            member
            for member in world.members
            if (member in self.nodes and member not in self.tombstones) or self.has_completed(world.round, member)
        )

    def agents(self) -> Mapping[str, Member]:
        """Pod uid → the newest stay of its agent; only stays without proof that they have ended."""
        return self._agents

    @cached_property
    def _agents(self) -> Mapping[str, Member]:
        stays = sorted(self.nodes.items(), key=lambda item: item[1].create_revision)
        return {node.record.pod_uid: member for member, node in stays if member not in self.tombstones}

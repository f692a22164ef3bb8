"""PURE: every transaction of an agent, with its fences; the only place where fences are written down.

Every transaction but `ready` compares the world's mod revision. Every one compares that the own node key exists under
the own lease. The closer's compare also that the closer key does, and the spec's mod revision. Writes of the own node
record are a chain: each compares the revision of the one before (`VersionedNode`). So one that was given up and takes
place late never undoes a newer one. The else branch reads `P/c/ctl/`, so a loser learns in the same trip.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from elasticjob_api import records, rendezvous_state
from elasticjob_api.keys import Keys
from elasticjob_api.link_secret import encode_link_secret
from elasticjob_api.records import (
    Completion,
    NodeRecord,
    NodeReport,
    SpecRecord,
    Tombstone,
    TombstoneReason,
    WorkerFailure,
)
from elasticjob_api.rendezvous_state import Leader, Member, Membership, RendezvousState, RoundPhase
from elasticjob_api.runtime_config import RuntimeConfig, encode_runtime_config
from elasticjob_etcd.interface import Compare, Delete, Get, Op, Put, Txn, absent, leased, unchanged


@dataclass(frozen=True, slots=True)
class VersionedNode:
    """The own node record as it was written last, and the revision of that write."""

    node: NodeRecord
    revision: int


@dataclass(frozen=True, slots=True)
class SessionKeys:
    """The identity of a writer: one stay of one agent."""

    keys: Keys
    member: Member
    lease: int

    @property
    def node_key(self) -> str:
        """Its node key."""
        return self.keys.node(self.member.slot, self.member.incarnation)

    @property
    def owns_key(self) -> Compare:
        """The fence: my key lives, under my lease."""
        return leased(self.node_key, self.lease)

    def unchanged_since(self, last: VersionedNode) -> tuple[Compare, Compare]:
        """The fences of a write of the node record: it is mine, and as I wrote it last."""
        return self.owns_key, unchanged(self.node_key, last.revision)

    @property
    def on_conflict_reads(self) -> tuple[Get, Get]:
        """What a refused writer of the node record reads."""
        return Get(self.keys.ctl, prefix=True), Get(self.node_key)

    def put_node(self, node: NodeRecord) -> Put:
        """My record, under my lease."""
        return Put(self.node_key, records.encode(node), self.lease)


@dataclass(frozen=True, slots=True)
class FailureRecord:
    """A failure to be recorded, and where."""

    round: int
    local_rank: int
    failure: WorkerFailure


def create_spec(keys: Keys, spec: SpecRecord) -> Txn:
    """Write the spec as the first agent of a job without an operator."""
    return Txn((absent(keys.spec),), (Put(keys.spec, records.encode(spec)),))


def join(me: SessionKeys, node: NodeRecord, *, spec_revision: int, slot_is_given: bool = False) -> Txn:
    """Create the node key under the spec as it was read, and read what is watched from then on.

    And the nodes, if a slot was looked for: N joiners that read them all, or the spec's map a second time, would read
    N² of them.
    """
    nodes = () if slot_is_given else (Get(me.keys.nodes, prefix=True),)
    gone = me.keys.tombstone(me.member.slot, me.member.incarnation)
    fences = (absent(me.node_key), absent(gone), unchanged(me.keys.spec, spec_revision))
    return Txn(fences, (me.put_node(node), Get(me.keys.ctl, prefix=True), *nodes))


def put_back(me: SessionKeys, node: NodeRecord, world_revision: int) -> Txn:
    """After a lost lease: the same key under a new lease, if nobody moved on and nothing was proved against it.

    Reads all nodes, for who has the slot.
    """
    gone = me.keys.tombstone(me.member.slot, me.member.incarnation)
    fences = (absent(me.node_key), absent(gone), unchanged(me.keys.rendezvous_state, world_revision))
    return Txn(fences, (me.put_node(node), Get(me.keys.nodes, prefix=True)), (Get(me.keys.ctl, prefix=True),))


def read_after_reset(me: SessionKeys) -> Txn:
    """Read what a store that was wiped or restored knows: world, members, proof against this stay, and all nodes."""
    gone = Get(me.keys.tombstone(me.member.slot, me.member.incarnation))
    reads = (Get(me.keys.ctl, prefix=True), Get(me.keys.members), gone, Get(me.keys.nodes, prefix=True))
    return Txn((), reads)


def ready(me: SessionKeys, last: VersionedNode, node: NodeRecord) -> Txn:
    """`ready` stays true for ever, so it needs no fence but the own record."""
    return Txn(me.unchanged_since(last), (me.put_node(node),), me.on_conflict_reads)


def open_round(
    me: SessionKeys, observed_revision: int, next_world: RendezvousState, failures: Sequence[FailureRecord]
) -> Txn:
    """Open the next round, with the failures that cause it."""
    ops = (_put_world(me.keys, next_world), *_put_failures(me, failures))
    return Txn(
        (unchanged(me.keys.rendezvous_state, observed_revision), me.owns_key), ops, (Get(me.keys.ctl, prefix=True),)
    )


def open_leaving(
    me: SessionKeys,
    observed_revision: int,
    next_world: RendezvousState,
    last: VersionedNode,
    node: NodeRecord,
    *,
    is_leader: bool,
) -> Txn:
    """Open the next round because this member (`node` says leaving) goes; peers move at once."""
    ops = (_put_world(me.keys, next_world), *leaving(me, last, node, is_leader=is_leader).success)
    return Txn(
        (unchanged(me.keys.rendezvous_state, observed_revision), *me.unchanged_since(last)), ops, me.on_conflict_reads
    )


def late_failures(me: SessionKeys, failures: Sequence[FailureRecord]) -> Txn:
    """Failures of one that lost the race to open: they count for the cause only."""
    return Txn((me.owns_key,), tuple(_put_failures(me, failures)), (Get(me.keys.ctl, prefix=True),))


def leaving(me: SessionKeys, last: VersionedNode, node: NodeRecord, *, is_leader: bool) -> Txn:
    """Say that this node is on its way out, and stand down as closer; opens nothing."""
    ops: tuple[Op, ...] = (me.put_node(node),)
    if is_leader:
        ops = (*ops, Delete(me.keys.leader))
    return Txn(me.unchanged_since(last), ops, me.on_conflict_reads)


def done(me: SessionKeys, observed_revision: int, round_: int) -> Txn:
    """All workers of this member exited 0 in this round."""
    record = Put(me.keys.completion(round_, me.member.slot), records.encode(Completion(me.member.incarnation)))
    return Txn(
        (unchanged(me.keys.rendezvous_state, observed_revision), me.owns_key),
        (record,),
        (Get(me.keys.ctl, prefix=True),),
    )


def report(me: SessionKeys, record: NodeReport) -> Txn:
    """Worker states and samples; its failure tells an agent that it was evicted."""
    key = me.keys.report(me.member.slot, me.member.incarnation)
    return Txn((me.owns_key,), (Put(key, records.encode(record), me.lease),), (Get(me.keys.ctl, prefix=True),))


def delete_own_keys(me: SessionKeys) -> Txn:
    """`left`, written before the lease is revoked; what was proved against it stands."""
    gone = me.keys.tombstone(me.member.slot, me.member.incarnation)
    return Txn((absent(gone), me.owns_key), (Put(gone, records.encode(Tombstone(TombstoneReason.LEFT))),))


def evict(me: SessionKeys, observed_revision: int, member: Member, proof: Tombstone) -> Txn:
    """The closer's proof that `member` is gone, for the world it was found late in; the first proof stands.

    The else branch reads that first proof, if there is one, before `P/c/ctl/`.
    """
    gone = me.keys.tombstone(member.slot, member.incarnation)
    fences = (
        absent(gone),
        unchanged(me.keys.rendezvous_state, observed_revision),
        me.owns_key,
        leased(me.keys.leader, me.lease),
    )
    return Txn(fences, (Put(gone, records.encode(proof)),), (Get(gone), Get(me.keys.ctl, prefix=True)))


def evict_leader(me: SessionKeys, leader: Member, lease: int, proof: Tombstone) -> Txn:
    """A member's proof that the closer is gone: of that closer, or of none; the first proof stands.

    No fence on the world: that a process is gone is true in every world. The else branch reads the first proof.
    """
    gone = me.keys.tombstone(leader.slot, leader.incarnation)
    fences = (absent(gone), me.owns_key, leased(me.keys.leader, lease))
    return Txn(fences, (Put(gone, records.encode(proof)),), (Get(gone), Get(me.keys.ctl, prefix=True)))


@dataclass(frozen=True, slots=True)
class Push:
    """The closer's further messages to all agents, beside the world."""

    runtime_config: RuntimeConfig | None = None
    link_key: bytes | None = None

    def fences(self, keys: Keys) -> tuple[Compare, ...]:
        """The key of the links is written once."""
        return () if self.link_key is None else (absent(keys.link_secret),)

    def puts(self, keys: Keys) -> tuple[Put, ...]:
        """All that there is to say."""
        terms = (
            ()
            if self.runtime_config is None
            else (Put(keys.runtime_config, encode_runtime_config(self.runtime_config)),)
        )
        key = () if self.link_key is None else (Put(keys.link_secret, encode_link_secret(self.link_key)),)
        return (*terms, *key)


NO_PUSH = Push()


@dataclass(frozen=True, slots=True)
class FirstState:
    """A job's first world, from its spec as it is at one revision."""

    world: RendezvousState
    spec_revision: int
    push: Push
    is_operated: bool
    """Without an operator nobody says what is expected, unless the spec was one's that has emptied it: for the end."""

    def fences(self, keys: Keys) -> tuple[Compare, ...]:
        """There is no other, and nobody has told anything yet."""
        emptied = () if self.is_operated else (absent(keys.expected),)
        spec = unchanged(keys.spec, self.spec_revision)
        return absent(keys.rendezvous_state), spec, *emptied, *self.push.fences(keys)

    def puts(self, keys: Keys) -> tuple[Put, ...]:
        """The world, and what goes with it."""
        return _put_world(keys, self.world), *self.push.puts(keys)


def campaign(me: SessionKeys, link: str, first: FirstState | None = None) -> Txn:
    """Stand as closer; the first one wins. With the `first` world of a job, if there never was another."""
    value = rendezvous_state.encode_leader(Leader(me.member, link))
    fences, puts = ((), ()) if first is None else (first.fences(me.keys), first.puts(me.keys))
    closer = Put(me.keys.leader, value, me.lease)
    return Txn((absent(me.keys.leader), me.owns_key, *fences), (closer, *puts), (Get(me.keys.ctl, prefix=True),))


def push(me: SessionKeys, spec_revision: int, push: Push) -> Txn:
    """The closer's news; no fence on the world: they are true in every one."""
    fences = (unchanged(me.keys.spec, spec_revision), me.owns_key, leased(me.keys.leader, me.lease))
    return Txn((*fences, *push.fences(me.keys)), push.puts(me.keys), (Get(me.keys.ctl, prefix=True),))


def write_world(
    me: SessionKeys,
    *,
    observed_revision: int,
    spec_revision: int,
    next_world: RendezvousState,
    garbage: Iterable[str] = (),
    push: Push = NO_PUSH,
) -> Txn:
    """The closer's write; `active` also writes the members and drops `garbage` (prefixes of rounds long gone).

    `push` are told in the same breath, so that nobody acts on this world without them.
    """
    fences = (
        unchanged(me.keys.rendezvous_state, observed_revision),
        unchanged(me.keys.spec, spec_revision),
        me.owns_key,
        leased(me.keys.leader, me.lease),
        *push.fences(me.keys),
    )
    ops: list[Op] = [_put_world(me.keys, next_world)]
    if next_world.state is RoundPhase.ACTIVE:
        membership = Membership(next_world.round, next_world.members)
        ops.append(Put(me.keys.members, rendezvous_state.encode_membership(membership)))
    ops.extend(Delete(key, prefix=True) for key in garbage)
    ops.extend(push.puts(me.keys))
    return Txn(fences, tuple(ops), (Get(me.keys.ctl, prefix=True),))


def _put_world(keys: Keys, next_world: RendezvousState) -> Put:
    return Put(keys.rendezvous_state, rendezvous_state.encode_state(next_world))


def _put_failures(me: SessionKeys, failures: Sequence[FailureRecord]) -> list[Op]:
    return [Put(me.keys.failure(f.round, me.member.slot, f.local_rank), records.encode(f.failure)) for f in failures]

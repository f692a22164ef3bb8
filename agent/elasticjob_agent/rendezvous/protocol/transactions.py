"""Every transaction of an agent in the rendezvous, with its compares; they are written in this module only.

A write of the rendezvous state compares its mod revision. Each write of a joined agent compares that its own node key
exists under its own lease. The leader's writes also compare that the leader key has that lease, and the spec's mod
revision. Writes of the own node record form a chain: each compares the revision of the one before (`VersionedNode`). So
a write that was given up and takes place late never undoes a newer one. The else branch reads `P/c/ctl/`, so a refused
agent learns the cause in the same request.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from elasticjob_api import records, rendezvous_state
from elasticjob_api.holdings import HoldingsRecord, encode_holdings
from elasticjob_api.keys import FailureKey, Keys
from elasticjob_api.link_secret import encode_link_secret
from elasticjob_api.records import (
    Completion,
    NodeRecord,
    NodeReport,
    NodeSamples,
    SpecRecord,
    Tombstone,
    TombstoneReason,
    WorkerFailure,
)
from elasticjob_api.rendezvous_state import Leader, Member, Membership, RendezvousState, RoundPhase
from elasticjob_api.runtime_config import RuntimeConfig, encode_runtime_config
from elasticjob_etcd.interface import Compare, Delete, Get, Op, Put, Txn, absent, leased, unchanged

Failures = Mapping[FailureKey, WorkerFailure]
"""Failures of workers, as they are written, by the names of their keys."""


@dataclass(frozen=True, slots=True)
class VersionedNode:
    """The own node record as last written, and the revision of that write."""

    node: NodeRecord
    revision: int


@dataclass(frozen=True, slots=True)
class SessionIdentity:
    """The identity of a writer: one session of one agent."""

    keys: Keys
    member: Member
    lease: int

    @property
    def node_key(self) -> str:
        """The key of the session's node record."""
        return self.keys.node(self.member.slot, self.member.incarnation)

    @property
    def report_key(self) -> str:
        """The key of the session's report."""
        return self.keys.report(self.member.slot, self.member.incarnation)

    @property
    def owns_key(self) -> Compare:
        """The compare that the own node key exists under the own lease."""
        return leased(self.node_key, self.lease)

    def unchanged_since(self, last: VersionedNode) -> tuple[Compare, Compare]:
        """Return the compares of a write of the node record: it is the session's, and as last written."""
        return self.owns_key, unchanged(self.node_key, last.revision)

    @property
    def on_conflict_reads(self) -> tuple[Get, Get]:
        """The reads of the else branch of a write of the node record."""
        return Get(self.keys.ctl, prefix=True), Get(self.node_key)

    def put_node(self, node: NodeRecord) -> Put:
        """Return the write of the node record under the own lease."""
        return Put(self.node_key, records.encode(node), self.lease)

    def put_holdings(self, holdings: HoldingsRecord | None) -> tuple[Put, ...]:
        """Return the write of the holdings under the own lease; nothing if the node keeps no steps in memory."""
        if holdings is None:
            return ()
        key = self.keys.holdings(self.member.slot, self.member.incarnation)
        return (Put(key, encode_holdings(holdings), self.lease),)


def create_spec(keys: Keys, spec: SpecRecord) -> Txn:
    """Return the write of the spec by the first agent of a job without an operator."""
    return Txn((absent(keys.spec),), (Put(keys.spec, records.encode(spec)),))


def join(
    me: SessionIdentity,
    node: NodeRecord,
    *,
    spec_revision: int,
    slot_is_given: bool = False,
    holdings: HoldingsRecord | None = None,
) -> Txn:
    """Return the creation of the node key under the spec as it was read; it also reads the prefix that is watched next.

    It reads all nodes only if the agent chose its slot itself. With N joiners that would be N² nodes, as would the
    spec.
    """
    nodes = () if slot_is_given else (Get(me.keys.nodes, prefix=True),)
    tombstone_key = me.keys.tombstone(me.member.slot, me.member.incarnation)
    compares = (absent(me.node_key), absent(tombstone_key), unchanged(me.keys.spec, spec_revision))
    return Txn(compares, (me.put_node(node), *me.put_holdings(holdings), Get(me.keys.ctl, prefix=True), *nodes))


def put_back(
    me: SessionIdentity, node: NodeRecord, state_revision: int, *, holdings: HoldingsRecord | None = None
) -> Txn:
    """Return the write of the same keys under a new lease, if the state is unchanged and the session has no tombstone.

    It reads all nodes, to find the owner of the slot.
    """
    tombstone_key = me.keys.tombstone(me.member.slot, me.member.incarnation)
    compares = (absent(me.node_key), absent(tombstone_key), unchanged(me.keys.rendezvous_state, state_revision))
    puts = (me.put_node(node), *me.put_holdings(holdings))
    return Txn(compares, (*puts, Get(me.keys.nodes, prefix=True)), (Get(me.keys.ctl, prefix=True),))


def read_after_reset(me: SessionIdentity) -> Txn:
    """Return the reads of a wiped or restored store: state, members, the session's tombstone, all nodes."""
    tombstone = Get(me.keys.tombstone(me.member.slot, me.member.incarnation))
    reads = (Get(me.keys.ctl, prefix=True), Get(me.keys.members), tombstone, Get(me.keys.nodes, prefix=True))
    return Txn((), reads)


def write_back(keys: Keys, ops: tuple[Op, ...], *, state_revision: int, membership_revision: int) -> Txn:
    """Return the writes to a wiped or restored store, if state and members have not changed since they were read."""
    return Txn((unchanged(keys.rendezvous_state, state_revision), unchanged(keys.members, membership_revision)), ops)


def delete_finished_run(keys: Keys, state_revision: int) -> Txn:
    """Return the deletion of all keys of a job without an operator, if its final state has not changed."""
    return Txn((unchanged(keys.rendezvous_state, state_revision),), (Delete(keys.everything, prefix=True),))


def ready(me: SessionIdentity, last: VersionedNode, node: NodeRecord, *, holdings: HoldingsRecord | None = None) -> Txn:
    """Return the write of `ready`; it stays true for ever, so only the own record is compared.

    The holdings are written with it: when the barrier is passed, the leader knows those of every node.
    """
    return Txn(me.unchanged_since(last), (me.put_node(node), *me.put_holdings(holdings)), me.on_conflict_reads)


def put_holdings(me: SessionIdentity, holdings: HoldingsRecord | None) -> Txn:
    """Return the write of the holdings alone: of a node that ends, or that has listed the shared directory."""
    return Txn((me.owns_key,), me.put_holdings(holdings), (Get(me.keys.ctl, prefix=True),))


def open_round(me: SessionIdentity, observed_revision: int, next_state: RendezvousState, failures: Failures) -> Txn:
    """Return the write that opens the next round, with the failures that cause it."""
    ops = (_put_state(me.keys, next_state), *_put_failures(me.keys, failures))
    return Txn(
        (unchanged(me.keys.rendezvous_state, observed_revision), me.owns_key), ops, (Get(me.keys.ctl, prefix=True),)
    )


def open_leaving(
    me: SessionIdentity,
    observed_revision: int,
    next_state: RendezvousState,
    last: VersionedNode,
    node: NodeRecord,
    *,
    is_leader: bool,
) -> Txn:
    """Return the write that opens the next round because this member leaves (`node` has `leaving`)."""
    ops = (_put_state(me.keys, next_state), *leaving(me, last, node, is_leader=is_leader).success)
    return Txn(
        (unchanged(me.keys.rendezvous_state, observed_revision), *me.unchanged_since(last)), ops, me.on_conflict_reads
    )


def late_failures(me: SessionIdentity, failures: Failures) -> Txn:
    """Return the write of failures after another agent opened the round: they count for the root cause only."""
    return Txn((me.owns_key,), _put_failures(me.keys, failures), (Get(me.keys.ctl, prefix=True),))


def leaving(me: SessionIdentity, last: VersionedNode, node: NodeRecord, *, is_leader: bool) -> Txn:
    """Return the write of `leaving`, which also resigns as leader; it opens no round."""
    ops: tuple[Op, ...] = (me.put_node(node),)
    if is_leader:
        ops = (*ops, Delete(me.keys.leader))
    return Txn(me.unchanged_since(last), ops, me.on_conflict_reads)


def done(me: SessionIdentity, observed_revision: int, round_: int) -> Txn:
    """Return the record that all workers of this member exited with code 0 in this round."""
    record = Put(me.keys.completion(round_, me.member.slot), records.encode(Completion(me.member.incarnation)))
    return Txn(
        (unchanged(me.keys.rendezvous_state, observed_revision), me.owns_key),
        (record,),
        (Get(me.keys.ctl, prefix=True),),
    )


def report(me: SessionIdentity, report: NodeReport, samples: NodeSamples) -> Txn:
    """Return the write of the report and its samples; a refusal shows the agent that it was evicted."""
    put_report = Put(me.report_key, records.encode(report), me.lease)
    return Txn((me.owns_key,), (put_report, _put_samples(me, samples)), (Get(me.keys.ctl, prefix=True),))


def samples(me: SessionIdentity, samples: NodeSamples, report_revision: int) -> Txn:
    """Return the write of samples alone, beside the report as last written.

    A refusal shows that the report has to be written again, or that the agent was evicted.
    """
    compares = (me.owns_key, unchanged(me.report_key, report_revision))
    return Txn(compares, (_put_samples(me, samples),), (Get(me.keys.ctl, prefix=True),))


def write_left_tombstone(me: SessionIdentity) -> Txn:
    """Return the tombstone `left`, written before the lease is revoked; an existing tombstone remains."""
    tombstone_key = me.keys.tombstone(me.member.slot, me.member.incarnation)
    return Txn(
        (absent(tombstone_key), me.owns_key), (Put(tombstone_key, records.encode(Tombstone(TombstoneReason.LEFT))),)
    )


def evict(me: SessionIdentity, observed_revision: int, member: Member, tombstone: Tombstone) -> Txn:
    """Return the leader's tombstone for `member`, which was found late in this state; an existing one remains.

    The else branch reads the existing tombstone, if there is one, before `P/c/ctl/`.
    """
    tombstone_key = me.keys.tombstone(member.slot, member.incarnation)
    compares = (
        absent(tombstone_key),
        unchanged(me.keys.rendezvous_state, observed_revision),
        me.owns_key,
        leased(me.keys.leader, me.lease),
    )
    return Txn(
        compares, (Put(tombstone_key, records.encode(tombstone)),), (Get(tombstone_key), Get(me.keys.ctl, prefix=True))
    )


def evict_leader(me: SessionIdentity, leader: Member, lease: int, tombstone: Tombstone) -> Txn:
    """Return a member's tombstone for the leader, if it still leads; an existing tombstone remains.

    The state is not compared: that a process is gone is true in every state. The else branch reads the existing
    tombstone.
    """
    tombstone_key = me.keys.tombstone(leader.slot, leader.incarnation)
    compares = (absent(tombstone_key), me.owns_key, leased(me.keys.leader, lease))
    return Txn(
        compares, (Put(tombstone_key, records.encode(tombstone)),), (Get(tombstone_key), Get(me.keys.ctl, prefix=True))
    )


@dataclass(frozen=True, slots=True)
class Push:
    """Data that the leader writes for all agents besides the state."""

    runtime_config: RuntimeConfig | None = None
    link_key: bytes | None = None

    def compares(self, keys: Keys) -> tuple[Compare, ...]:
        """Return the compares: the key of the links is written only once."""
        return () if self.link_key is None else (absent(keys.link_secret),)

    def puts(self, keys: Keys) -> tuple[Put, ...]:
        """Return all writes of the push."""
        config = (
            ()
            if self.runtime_config is None
            else (Put(keys.runtime_config, encode_runtime_config(self.runtime_config)),)
        )
        key = () if self.link_key is None else (Put(keys.link_secret, encode_link_secret(self.link_key)),)
        return (*config, *key)


NO_PUSH = Push()


@dataclass(frozen=True, slots=True)
class FirstState:
    """The first state of a job, from its spec at one revision."""

    state: RendezvousState
    spec_revision: int
    push: Push
    is_operated: bool
    """Without an operator in the spec `expected` must be absent: it shows that an operator has emptied the spec."""

    def compares(self, keys: Keys) -> tuple[Compare, ...]:
        """Return the compares: no other state exists, and nothing was pushed."""
        emptied = () if self.is_operated else (absent(keys.expected),)
        spec = unchanged(keys.spec, self.spec_revision)
        return absent(keys.rendezvous_state), spec, *emptied, *self.push.compares(keys)

    def puts(self, keys: Keys) -> tuple[Put, ...]:
        """Return the writes of the state and of the push."""
        return _put_state(keys, self.state), *self.push.puts(keys)


def campaign(me: SessionIdentity, link: str, first: FirstState | None = None) -> Txn:
    """Return the candidacy as leader: the first one wins. `first` is written too, if the job never had a state."""
    value = rendezvous_state.encode_leader(Leader(me.member, link))
    compares, puts = ((), ()) if first is None else (first.compares(me.keys), first.puts(me.keys))
    candidacy = Put(me.keys.leader, value, me.lease)
    return Txn((absent(me.keys.leader), me.owns_key, *compares), (candidacy, *puts), (Get(me.keys.ctl, prefix=True),))


def push(me: SessionIdentity, spec_revision: int, push: Push) -> Txn:
    """Return the write of a push; the state is not compared, because a push is true in every state."""
    compares = (unchanged(me.keys.spec, spec_revision), me.owns_key, leased(me.keys.leader, me.lease))
    return Txn((*compares, *push.compares(me.keys)), push.puts(me.keys), (Get(me.keys.ctl, prefix=True),))


def write_state(
    me: SessionIdentity,
    *,
    observed_revision: int,
    spec_revision: int,
    next_state: RendezvousState,
    garbage: Iterable[str] = (),
    push: Push = NO_PUSH,
) -> Txn:
    """Return the leader's write of a state; an active one also writes the members and deletes `garbage` (prefixes).

    `push` is written in the same transaction, so that no agent acts on this state without it.
    """
    compares = (
        unchanged(me.keys.rendezvous_state, observed_revision),
        unchanged(me.keys.spec, spec_revision),
        me.owns_key,
        leased(me.keys.leader, me.lease),
        *push.compares(me.keys),
    )
    ops: list[Op] = [_put_state(me.keys, next_state)]
    if next_state.phase is RoundPhase.ACTIVE:
        membership = Membership(next_state.round, next_state.members)
        ops.append(Put(me.keys.members, rendezvous_state.encode_membership(membership)))
    ops.extend(Delete(key, prefix=True) for key in garbage)
    ops.extend(push.puts(me.keys))
    return Txn(compares, tuple(ops), (Get(me.keys.ctl, prefix=True),))


def _put_state(keys: Keys, next_state: RendezvousState) -> Put:
    return Put(keys.rendezvous_state, rendezvous_state.encode_state(next_state))


def _put_samples(me: SessionIdentity, samples: NodeSamples) -> Put:
    key = me.keys.samples(me.member.slot, me.member.incarnation)
    return Put(key, records.encode(samples), me.lease)


def _put_failures(keys: Keys, failures: Failures) -> tuple[Op, ...]:
    return tuple(
        Put(keys.failure(key.round, key.slot, key.local_rank), records.encode(failure))
        for key, failure in failures.items()
    )

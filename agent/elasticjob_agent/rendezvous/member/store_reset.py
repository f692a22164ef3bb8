"""Returning to a store that was wiped or restored: write the remembered state back, in one transaction.

States are ordered by (round, phase), then verdict. The highest that any agent remembers wins, also over a lower one in
the store, and keeps its nonce. An agent that it still names puts its own key and its done record back, and leaves its
workers untouched. Any other agent stops its workers and joins again. Nothing is lost as long as one agent that has
received the newest state runs. If none does, the operator begins at a far higher round.
"""

from dataclasses import dataclass, replace

from elasticjob_agent.rendezvous.member.join import is_still_member
from elasticjob_agent.rendezvous.protocol import transactions
from elasticjob_agent.rendezvous.protocol.last_known_state import LastKnownState, is_newer
from elasticjob_agent.rendezvous.protocol.transactions import SessionIdentity, VersionedNode
from elasticjob_api import records
from elasticjob_api.holdings import HoldingsRecord
from elasticjob_api.records import Completion, NodeRecord, SpecRecord
from elasticjob_api.rendezvous_state import RendezvousState, encode_membership, encode_state
from elasticjob_api.rendezvous_view import RendezvousView, parse_view
from elasticjob_etcd.interface import Etcd, Op, Put, Txn, reads_of


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSnapshot:
    """One session's knowledge of itself and of the state, independent of etcd."""

    me: SessionIdentity
    node: NodeRecord
    keep_alive_s: float
    own_spec: SpecRecord | None
    """The spec without an operator; an operator writes its own again."""
    last_known: LastKnownState
    started: tuple[int, str] | None
    done_round: int
    holdings: HoldingsRecord | None = None


async def restore(etcd: Etcd, snapshot: SessionSnapshot) -> tuple[SessionIdentity, VersionedNode] | None:
    """Write back; return the session under a new lease, or None if the node must join again. Raises EtcdError."""
    if snapshot.own_spec is not None:
        await etcd.txn(transactions.create_spec(snapshot.me.keys, snapshot.own_spec))
    while True:
        read = await etcd.txn(transactions.read_after_reset(snapshot.me))
        view = parse_view(snapshot.me.keys, reads_of(read))
        state = snapshot.last_known.state if is_newer(snapshot.last_known.state, view.state) else view.state
        if state is None or not _is_member(snapshot, view, state):
            if (await etcd.txn(_write_back(snapshot, view, ()))).succeeded:
                return None
        elif (back := await _put_back(etcd, snapshot, view)) is not None:
            return back


def _is_member(snapshot: SessionSnapshot, view: RendezvousView, state: RendezvousState) -> bool:
    """Whether the state in force names this member, it has no tombstone, and no other node owns its slot."""
    member = snapshot.me.member
    others = [node for node in view.nodes if node.slot == member.slot and node != member]
    taken = snapshot.own_spec is not None and bool(others)
    return member not in view.tombstones and not taken and is_still_member(state, member, snapshot.started)


async def _put_back(
    etcd: Etcd, snapshot: SessionSnapshot, view: RendezvousView
) -> tuple[SessionIdentity, VersionedNode] | None:
    lease = await etcd.lease_grant(snapshot.keep_alive_s)
    renewed = SessionIdentity(snapshot.me.keys, snapshot.me.member, lease.id)
    record = replace(snapshot.node, lease=lease.id)
    own = (renewed.put_node(record), *renewed.put_holdings(snapshot.holdings), *_done_record(snapshot))
    result = await etcd.txn(_write_back(snapshot, view, own))
    # A restored store may know the old lease; no key of this node has it any more. Otherwise the new lease is revoked.
    await etcd.lease_revoke(snapshot.me.lease if result.succeeded else lease.id)
    return (renewed, VersionedNode(record, result.revision)) if result.succeeded else None


def _done_record(snapshot: SessionSnapshot) -> tuple[Op, ...]:
    if not snapshot.done_round:
        return ()
    key = snapshot.me.keys.completion(snapshot.done_round, snapshot.me.member.slot)
    return (Put(key, records.encode(Completion(snapshot.me.member.incarnation))),)


def _write_back(snapshot: SessionSnapshot, view: RendezvousView, own: tuple[Op, ...]) -> Txn:
    """Return the write of all that is remembered and missing, if nothing has changed since it was read."""
    keys, last_known = snapshot.me.keys, snapshot.last_known
    ops: list[Op] = []
    if last_known.state is not None and is_newer(last_known.state, view.state):
        ops.append(Put(keys.rendezvous_state, encode_state(last_known.state)))
    known = 0 if view.membership is None else view.membership.round
    if last_known.membership is not None and last_known.membership.round > known:
        ops.append(Put(keys.members, encode_membership(last_known.membership)))
    return transactions.write_back(
        keys, (*ops, *own), state_revision=view.state_revision, membership_revision=view.membership_revision
    )

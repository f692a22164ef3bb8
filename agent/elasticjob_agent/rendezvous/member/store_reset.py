"""Coming back into a store that was wiped or restored: write back what is remembered, all of it in one transaction.

Worlds are ordered by (round, state), then verdict. The highest that any agent remembers wins, also over a lower one in
the store, and keeps its nonce. An agent that it still names puts its own key and its record of success back, and leaves
its workers untouched. Any other agent stops its workers and joins anew. Nothing is lost as long as one agent that has
seen the newest world lives. If none does, the operator begins at a far higher round.
"""

from dataclasses import dataclass, replace

from elasticjob_agent.rendezvous.member.join import is_still_named
from elasticjob_agent.rendezvous.protocol import transactions
from elasticjob_agent.rendezvous.protocol.last_known_state import Recall, outranks
from elasticjob_agent.rendezvous.protocol.transactions import Identity, NodeAt
from elasticjob_agent.rendezvous.protocol.view import View, parse_view
from elasticjob_api import records
from elasticjob_api.records import Done, Node, Slots
from elasticjob_api.rendezvous_state import World, encode_membership, encode_world
from elasticjob_etcd.interface import Etcd, Op, Put, Txn, reads_of, unchanged


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """The memory of one stay about itself and the world, independent of etcd."""

    me: Identity
    node: Node
    keep_alive_s: float
    own_spec: Slots | None
    """Without an operator; with one, it writes its own again."""
    recall: Recall
    started: tuple[int, str] | None
    done_round: int


async def come_back(etcd: Etcd, kept: Kept) -> tuple[Identity, NodeAt] | None:
    """Write back; the stay under a new lease, or None when it has to begin anew. Raises EtcdError."""
    if kept.own_spec is not None:
        await etcd.txn(transactions.create_spec(kept.me.keys, kept.own_spec))
    while True:
        read = await etcd.txn(transactions.recollect(kept.me))
        view = parse_view(kept.me.keys, reads_of(read))
        world = kept.recall.world if outranks(kept.recall.world, view.world) else view.world
        if world is None or not _has_a_place(kept, view, world):
            if (await etcd.txn(_write_back(kept, view, ()))).succeeded:
                return None
        elif (back := await _put_back(etcd, kept, view)) is not None:
            return back


def _has_a_place(kept: Kept, view: View, world: World) -> bool:
    """Named by the world that stands, not proved gone, and nobody else has the slot meanwhile."""
    member = kept.me.member
    others = [node for node in view.nodes if node.slot == member.slot and node != member]
    taken = kept.own_spec is not None and bool(others)
    return member not in view.gone and not taken and is_still_named(world, member, kept.started)


async def _put_back(etcd: Etcd, kept: Kept, view: View) -> tuple[Identity, NodeAt] | None:
    lease = await etcd.lease_grant(kept.keep_alive_s)
    again = Identity(kept.me.keys, kept.me.member, lease.id)
    record = replace(kept.node, lease=lease.id)
    result = await etcd.txn(_write_back(kept, view, (again.put_node(record), *_said(kept))))
    # A restored store may know the old lease; nothing of this node hangs there any more. Else the new one goes.
    await etcd.lease_revoke(kept.me.lease if result.succeeded else lease.id)
    return (again, NodeAt(record, result.revision)) if result.succeeded else None


def _said(kept: Kept) -> tuple[Op, ...]:
    if not kept.done_round:
        return ()
    key = kept.me.keys.done(kept.done_round, kept.me.member.slot)
    return (Put(key, records.encode(Done(kept.me.member.incarnation))),)


def _write_back(kept: Kept, view: View, own: tuple[Op, ...]) -> Txn:
    """All that is remembered and not there, if nothing has changed since it was read."""
    keys, recall = kept.me.keys, kept.recall
    ops: list[Op] = []
    if recall.world is not None and outranks(recall.world, view.world):
        ops.append(Put(keys.world, encode_world(recall.world)))
    known = 0 if view.membership is None else view.membership.round
    if recall.membership is not None and recall.membership.round > known:
        ops.append(Put(keys.members, encode_membership(recall.membership)))
    fences = (unchanged(keys.world, view.world_revision), unchanged(keys.members, view.membership_revision))
    return Txn(fences, (*ops, *own))

"""Entering a job: lease, slot, node key; and coming back after a lost lease.

It takes few round trips. Read the spec for the slot's owner and the duration of the lease, unless the pod was made with
a brief of it. Grant the lease. When the watch is established, one transaction creates the node key if that is still the
spec, and reads the watched prefix. The incarnation is drawn anew at every join, so that a closer sees a new stay, never
an old one come back.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace

from elasticjob_agent.rendezvous.errors import NoSpec, Superseded
from elasticjob_agent.rendezvous.protocol import transactions
from elasticjob_agent.rendezvous.protocol.last_known_state import is_newer
from elasticjob_agent.rendezvous.protocol.transactions import SessionKeys, VersionedNode
from elasticjob_agent.rendezvous.protocol.view import RendezvousView, decode_slots, parse_view
from elasticjob_api import records
from elasticjob_api.bootstrap import Bootstrap, bootstrap_of
from elasticjob_api.errors import RecordError
from elasticjob_api.keys import SLOT_LIMIT, Keys
from elasticjob_api.records import NodeRecord, SpecRecord, Tombstone, TombstoneReason
from elasticjob_api.rendezvous_state import Member, RendezvousState, RoundPhase, decode_state
from elasticjob_etcd.errors import StoreReset
from elasticjob_etcd.interface import Delete, Etcd, KeyValue, Lease, Range, Txn, TxnResult, unchanged

Watching = Callable[[], Awaitable[None]]
"""Comes back when the watch stands; what is read after that leaves no gap to be listed."""

_FORBIDDEN = {TombstoneReason.SUPERSEDED, TombstoneReason.POD_DELETED, TombstoneReason.POD_FAILED}

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeIdentity:
    """The identity of this node, for all of its stays."""

    keys: Keys
    pod: str
    pod_uid: str
    host: str
    address: str
    nproc: int
    lease_ttl_s: float
    """What the job's spec says of it goes before; without an operator the first agent writes this into the spec."""
    role: str = "default"
    slot: int | None = None
    """The slot that the operator gave; None: the lowest free one is taken."""
    bootstrap: Bootstrap | None = None
    """What the operator's spec said as it made this node's pod, and gave it this slot."""
    own_spec: SpecRecord | None = None
    """Without an operator: what this node wants of the job, if it is the first."""
    may_clear_finished_run: bool = True
    """It may clear away a finished run of the same id, and begin another."""


@dataclass(frozen=True, slots=True)
class JobRequirements:
    """A joiner's knowledge of the spec."""

    bootstrap: Bootstrap
    own: SpecRecord | None = None
    """Without an operator: all of it, which an agent writes back after a wipe."""

    @property
    def is_operated(self) -> bool:
        """An operator writes the spec, and says who has which slot."""
        return self.own is None


@dataclass(frozen=True, slots=True)
class JoinResult:
    """A stay that has begun."""

    me: SessionKeys
    last: VersionedNode
    requirements: JobRequirements
    ctl: Range
    lease: Lease
    """With the time that was asked for: etcd may grant more, but whoever waits for its end does not know."""


@dataclass(frozen=True, slots=True)
class Ports:
    """The port where this node listens on its address, as its key shows; 0: none."""

    master: int
    """For the workers, if it gets rank 0."""
    link: int = 0


async def join(
    etcd: Etcd, identity: NodeIdentity, *, ports: Ports, draw: Callable[[], str], watching: Watching | None = None
) -> JoinResult:
    """Begin a stay; `watching` is for its world.

    Raises Superseded where this node is not wanted (any more), EtcdError when etcd does not answer.
    NothingWanted, before anything is written, where there is no spec and another should have written one.
    """
    while True:
        if identity.own_spec is not None:
            wanted = replace(identity.own_spec, keep_alive_s=identity.lease_ttl_s)
            await _begin_without_operator(etcd, identity.keys, wanted, clears=identity.may_clear_finished_run)
        result = await _try_join(etcd, identity, ports, draw=draw, watching=watching)
        if result is not None:
            return result
        identity = replace(identity, bootstrap=None)  # the spec may have changed since; now it is read


async def _begin_without_operator(etcd: Etcd, keys: Keys, spec: SpecRecord, *, clears: bool) -> None:
    """Clear away a finished run of the same id that nobody is in any more, and say what is wanted if nobody did."""
    found = await etcd.range(keys.everything)
    view = parse_view(keys, found.kvs)
    if clears and view.world is not None and view.world.state.is_final and not view.nodes:
        log.info("clearing away the finished run under %s", keys.prefix)
        await etcd.txn(
            Txn((unchanged(keys.rendezvous_state, view.world_revision),), (Delete(keys.everything, prefix=True),))
        )
    await etcd.txn(transactions.create_spec(keys, spec))


async def _try_join(
    etcd: Etcd, identity: NodeIdentity, ports: Ports, *, draw: Callable[[], str], watching: Watching | None
) -> JoinResult | None:
    keys = identity.keys
    requirements = (
        await _requirements(etcd, identity) if identity.bootstrap is None else JobRequirements(identity.bootstrap)
    )
    if requirements is None:
        return None
    slot = identity.slot if identity.slot is not None else await _free_slot(etcd, keys)
    lease = await etcd.lease_grant(requirements.bootstrap.keep_alive_s)
    me = SessionKeys(keys, Member(slot, draw()), lease.id)
    node = _node(identity, me, ports)
    is_given = identity.slot is not None
    if watching is not None:
        await watching()
    result = await etcd.txn(
        transactions.join(me, node, spec_revision=requirements.bootstrap.revision, slot_is_given=is_given)
    )
    if result.succeeded and (is_given or _is_oldest(parse_view(keys, result.reads[1]), me.member)):
        ctl = Range(result.reads[0], result.revision)
        ttl_s = requirements.bootstrap.keep_alive_s
        return JoinResult(me, VersionedNode(node, result.revision), requirements, ctl, Lease(lease.id, ttl_s))
    # Another took the slot in between (it is older), the drawn incarnation exists, what is wanted has changed, or the
    # last of an older run has just cleared everything away: leave no trace, try again.
    await etcd.lease_revoke(lease.id)
    return None


async def _requirements(etcd: Etcd, identity: NodeIdentity) -> JobRequirements | None:
    """What the spec says; None if the one that this node wrote has just been cleared away.

    Asked beforehand: a key that is created and revoked, by one that is not wanted or for a wrong lease, would look
    like a node come and gone. Raises Superseded, NothingWanted.
    """
    found = await etcd.get(identity.keys.spec)
    if found is None:
        if identity.own_spec is not None:
            return None
        raise NoSpec(_no_spec(identity.keys))
    try:
        spec = decode_slots(found.value)
    except RecordError as error:
        raise Superseded(_no_spec(identity.keys)) from error
    if refusal := _rejection(spec, identity):
        raise Superseded(refusal)
    return JobRequirements(bootstrap_of(spec, found.mod_revision), spec if spec.operator is None else None)


def _node(identity: NodeIdentity, me: SessionKeys, ports: Ports) -> NodeRecord:
    return NodeRecord(
        pod=identity.pod,
        pod_uid=identity.pod_uid,
        lease=me.lease,
        host=identity.host,
        address=identity.address,
        nproc=identity.nproc,
        role=identity.role,
        master_port=ports.master,
        link_port=ports.link,
    )


async def _free_slot(etcd: Etcd, keys: Keys) -> int:
    found = await etcd.range(keys.nodes)
    taken = {member.slot for member in parse_view(keys, found.kvs).nodes}
    return next(slot for slot in range(SLOT_LIMIT) if slot not in taken)


def _flatten(result: TxnResult) -> Iterable[KeyValue]:
    return [kv for read in result.reads for kv in read]


def _is_oldest(view: RendezvousView, member: Member) -> bool:
    """Reads of the join's own revision: of several in one slot all see the same oldest."""
    same = [node for node in view.nodes.values() if node.member.slot == member.slot]
    return min(same, key=lambda node: node.create_revision).member == member


def _rejection(spec: SpecRecord, identity: NodeIdentity) -> str:
    """Why this node has no place in the job, in a sentence; empty if it has one."""
    if spec.operator is None or identity.slot is None:
        return ""
    owner = spec.owner(identity.slot)
    if owner is not None and owner.pod == identity.pod:
        return ""
    now = "nobody" if owner is None else owner.pod
    return f"slot {identity.slot} belongs to {now}, not to {identity.pod}; this pod is no longer part of the job"


def _no_spec(keys: Keys) -> str:
    return f"nothing is wanted under {keys.prefix}: the job was deleted, has ended, or never was"


async def rejoin(
    etcd: Etcd,
    me: SessionKeys,
    node: NodeRecord,
    *,
    operated: bool,
    started: tuple[int, str] | None,
    lease_ttl_s: float,
    remembered: RendezvousState | None = None,
) -> tuple[SessionKeys, VersionedNode] | None:
    """The same stay again, under a new lease if need be, its workers untouched; None when the job went on without it.

    Raises Superseded when the stay was evicted for good, EtcdError when etcd does not answer, and Wiped when there
    is less than what is `remembered` of the world: the watch tells soon whether the store was wiped or the job deleted.
    """
    proof = await etcd.get(me.keys.tombstone(me.member.slot, me.member.incarnation))
    if proof is not None and (gone := records.decode(Tombstone, proof.value)).reason in _FORBIDDEN:
        raise Superseded(f"this node was evicted: {gone.reason.value} {gone.detail}".rstrip())
    key = await etcd.get(me.node_key)
    if proof is None and key is not None and await etcd.lease_keep_alive(key.lease) > 0:
        # Nothing was lost but answers. Nobody else writes this key: it holds what was said last, and whose lease it is.
        return replace(me, lease=key.lease), VersionedNode(records.decode(NodeRecord, key.value), key.mod_revision)
    found = await etcd.get(me.keys.rendezvous_state)
    world = None if found is None else decode_state(found.value)
    if is_newer(remembered, world):
        raise StoreReset(f"{me.keys.rendezvous_state} is not what it was; either etcd was wiped or the job was deleted")
    if found is None or world is None or proof is not None or not is_still_member(world, me.member, started):
        return None
    return await _put_back(
        etcd, me, node, world_revision=found.mod_revision, lease_ttl_s=lease_ttl_s, operated=operated
    )


def is_still_member(world: RendezvousState, member: Member, started: tuple[int, str] | None) -> bool:
    """Nothing has changed for this member: its workers are those of the round that runs."""
    return world.state is RoundPhase.ACTIVE and started == (world.round, world.nonce) and member in world.members


async def _put_back(
    etcd: Etcd, me: SessionKeys, node: NodeRecord, *, world_revision: int, lease_ttl_s: float, operated: bool
) -> tuple[SessionKeys, VersionedNode] | None:
    lease = await etcd.lease_grant(lease_ttl_s)
    again = SessionKeys(me.keys, me.member, lease.id)
    record = replace(node, lease=lease.id)
    result = await etcd.txn(transactions.put_back(again, record, world_revision))
    # Without an operator another may have taken the slot for a free one meanwhile; it is older now, and has it.
    if result.succeeded and (operated or _is_oldest(parse_view(me.keys, _flatten(result)), me.member)):
        return again, VersionedNode(record, result.revision)
    await etcd.lease_revoke(lease.id)
    return None

"""Joining a job (lease, slot, node key), and rejoining after a lost lease.

A join takes few round trips. The agent reads the spec for the slot's owner and the duration of the lease, unless its
pod has a bootstrap of it. It gets a lease. When the watch is established, one transaction creates the node key if the
spec is unchanged, and reads the watched prefix. Each join draws a new incarnation. So a leader sees a new session,
never an old one that returns.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace

from elasticjob_agent.rendezvous.errors import NoSpec, Superseded
from elasticjob_agent.rendezvous.protocol import transactions
from elasticjob_agent.rendezvous.protocol.last_known_state import is_newer
from elasticjob_agent.rendezvous.protocol.transactions import SessionIdentity, VersionedNode
from elasticjob_api import records
from elasticjob_api.bootstrap import Bootstrap, bootstrap_of
from elasticjob_api.errors import RecordError
from elasticjob_api.holdings import HoldingsRecord
from elasticjob_api.keys import SLOT_LIMIT, Keys
from elasticjob_api.records import NodeRecord, SpecRecord, Tombstone, TombstoneReason
from elasticjob_api.rendezvous_state import Member, RendezvousState, RoundPhase, decode_state
from elasticjob_api.rendezvous_view import RendezvousView, decode_spec, parse_view
from elasticjob_etcd.errors import StoreReset
from elasticjob_etcd.interface import Etcd, KeyValue, Lease, Range, TxnResult

Watching = Callable[[], Awaitable[None]]
"""Returns when the watch is established; a read after that leaves no gap, so that nothing needs to be listed."""

_FORBIDDEN = {TombstoneReason.SUPERSEDED, TombstoneReason.POD_DELETED, TombstoneReason.POD_FAILED}

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeIdentity:
    """The identity of this node, for all of its sessions."""

    keys: Keys
    pod: str
    pod_uid: str
    host: str
    address: str
    nproc: int
    role: str = "default"
    slot: int | None = None
    """The slot that the operator gave; None: the lowest free one is taken."""
    bootstrap: Bootstrap | None = None
    """The operator's spec at the time when it created this node's pod with this slot."""
    own_spec: SpecRecord | None = None
    """Without an operator: the spec that this node writes if it is the first."""
    may_clear_finished_run: bool = True
    """Whether it may delete a finished run of the same id, and begin another."""


@dataclass(frozen=True, slots=True)
class JobRequirements:
    """The part of the spec that a joiner must know."""

    bootstrap: Bootstrap
    own: SpecRecord | None = None
    """Without an operator: the whole spec, which an agent writes back after a wipe."""

    @property
    def is_operated(self) -> bool:
        """Whether an operator writes the spec and assigns the slots."""
        return self.own is None


@dataclass(frozen=True, slots=True)
class JoinResult:
    """A session that has begun."""

    me: SessionIdentity
    last: VersionedNode
    requirements: JobRequirements
    ctl: Range
    lease: Lease
    """With the requested time: etcd may grant more, but agents that wait for its end do not know that."""


@dataclass(frozen=True, slots=True)
class Ports:
    """The ports where this node listens on its address, as in its key; 0: none."""

    master: int
    """For the workers, if it gets rank 0."""
    link: int = 0


async def join(
    etcd: Etcd,
    identity: NodeIdentity,
    *,
    ports: Ports,
    random_hex: Callable[[], str],
    watching: Watching | None = None,
    holdings: HoldingsRecord | None = None,
) -> JoinResult:
    """Begin a session; `watching` waits for the watch of its state.

    Raises Superseded if this node does not own its slot (any more), and EtcdError if etcd does not answer. Raises
    NoSpec, before anything is written, if there is no spec and this node may not write one.
    """
    while True:
        if identity.own_spec is not None:
            await _begin_without_operator(
                etcd, identity.keys, identity.own_spec, clears=identity.may_clear_finished_run
            )
        result = await _try_join(etcd, identity, ports, random_hex=random_hex, watching=watching, holdings=holdings)
        if result is not None:
            return result
        identity = replace(identity, bootstrap=None)  # the spec may have changed since: read it now


async def _begin_without_operator(etcd: Etcd, keys: Keys, spec: SpecRecord, *, clears: bool) -> None:
    """Delete a finished run of the same id without nodes, and write the spec if there is none."""
    found = await etcd.range(keys.everything)
    view = parse_view(keys, found.kvs)
    if clears and view.state is not None and view.state.phase.is_final and not view.nodes:
        log.info("deleting the finished run under %s", keys.prefix)
        await etcd.txn(transactions.delete_finished_run(keys, view.state_revision))
    await etcd.txn(transactions.create_spec(keys, spec))


async def _try_join(
    etcd: Etcd,
    identity: NodeIdentity,
    ports: Ports,
    *,
    random_hex: Callable[[], str],
    watching: Watching | None,
    holdings: HoldingsRecord | None,
) -> JoinResult | None:
    keys = identity.keys
    requirements = (
        await _requirements(etcd, identity) if identity.bootstrap is None else JobRequirements(identity.bootstrap)
    )
    if requirements is None:
        return None
    slot = identity.slot if identity.slot is not None else await _free_slot(etcd, keys)
    lease = await etcd.lease_grant(requirements.bootstrap.keep_alive_s)
    me = SessionIdentity(keys, Member(slot, random_hex()), lease.id)
    node = _node(identity, me, ports)
    is_given = identity.slot is not None
    if watching is not None:
        await watching()
    spec_revision = requirements.bootstrap.revision
    result = await etcd.txn(
        transactions.join(me, node, spec_revision=spec_revision, slot_is_given=is_given, holdings=holdings)
    )
    if result.succeeded and (is_given or _is_oldest(parse_view(keys, result.reads[1]), me.member)):
        ctl = Range(result.reads[0], result.revision)
        ttl_s = requirements.bootstrap.keep_alive_s
        return JoinResult(me, VersionedNode(node, result.revision), requirements, ctl, Lease(lease.id, ttl_s))
    # Another node took the slot in between (it is older), the incarnation exists, or the spec has changed. Or the last
    # agent of an older run has just deleted all keys. Leave nothing behind, and try again.
    await etcd.lease_revoke(lease.id)
    return None


async def _requirements(etcd: Etcd, identity: NodeIdentity) -> JobRequirements | None:
    """Return the requirements in the spec; None if the spec that this node wrote has just been deleted.

    The spec is read first, because a node key that is created and soon revoked would look like a lost node. That would
    happen for a node without a slot, or with a wrong lease. Raises Superseded, NoSpec.
    """
    found = await etcd.get(identity.keys.spec)
    if found is None:
        if identity.own_spec is not None:
            return None
        raise NoSpec(_no_spec(identity.keys))
    try:
        spec = decode_spec(found.value)
    except RecordError as error:
        raise Superseded(_no_spec(identity.keys)) from error
    if refusal := _rejection(spec, identity):
        raise Superseded(refusal)
    return JobRequirements(bootstrap_of(spec, found.mod_revision), spec if spec.operator is None else None)


def _node(identity: NodeIdentity, me: SessionIdentity, ports: Ports) -> NodeRecord:
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
    """Whether the member has the oldest key of its slot; the join's revision shows all agents the same one."""
    same = [node for node in view.nodes.values() if node.member.slot == member.slot]
    return min(same, key=lambda node: node.create_revision).member == member


def _rejection(spec: SpecRecord, identity: NodeIdentity) -> str:
    """Return why this node owns no slot in the job, as a message; empty if it owns one."""
    if spec.operator is None or identity.slot is None:
        return ""
    owner = spec.owner(identity.slot)
    if owner is not None and owner.pod == identity.pod:
        return ""
    owner_name = "no pod" if owner is None else owner.pod
    return f"slot {identity.slot} belongs to {owner_name}, not to {identity.pod}; this pod is no longer part of the job"


def _no_spec(keys: Keys) -> str:
    return f"there is no spec under {keys.prefix}: the job was deleted, has ended, or never existed"


async def rejoin(
    etcd: Etcd,
    me: SessionIdentity,
    node: NodeRecord,
    *,
    operated: bool,
    started: tuple[int, str] | None,
    lease_ttl_s: float,
    remembered: RendezvousState | None = None,
    holdings: HoldingsRecord | None = None,
) -> tuple[SessionIdentity, VersionedNode] | None:
    """Return the same session, under a new lease if needed; None when the job has continued without it.

    Its workers are not touched. Raises Superseded when the session was evicted for good, and EtcdError when etcd does
    not answer. Raises StoreReset when etcd has an older state than `remembered`. The watch shows soon whether the store
    was wiped or the job was deleted.
    """
    tombstone_kv = await etcd.get(me.keys.tombstone(me.member.slot, me.member.incarnation))
    if tombstone_kv is not None and (tombstone := records.decode(Tombstone, tombstone_kv.value)).reason in _FORBIDDEN:
        raise Superseded(f"this node was evicted: {tombstone.reason.value} {tombstone.detail}".rstrip())
    key = await etcd.get(me.node_key)
    if tombstone_kv is None and key is not None and await etcd.lease_keep_alive(key.lease) > 0:
        # Only answers were lost. No other agent writes this key: it has the last record written, and the current lease.
        return replace(me, lease=key.lease), VersionedNode(records.decode(NodeRecord, key.value), key.mod_revision)
    found = await etcd.get(me.keys.rendezvous_state)
    state = None if found is None else decode_state(found.value)
    if is_newer(remembered, state):
        what = f"{me.keys.rendezvous_state} is missing or older than before"
        raise StoreReset(f"{what}; either etcd was wiped or the job was deleted")
    if found is None or state is None or tombstone_kv is not None or not is_still_member(state, me.member, started):
        return None
    return await _put_back(
        etcd,
        me,
        node,
        state_revision=found.mod_revision,
        lease_ttl_s=lease_ttl_s,
        operated=operated,
        holdings=holdings,
    )


def is_still_member(state: RendezvousState, member: Member, started: tuple[int, str] | None) -> bool:
    """Whether nothing has changed for this member: its workers are those of the active round."""
    return state.phase is RoundPhase.ACTIVE and started == (state.round, state.nonce) and member in state.members


async def _put_back(
    etcd: Etcd,
    me: SessionIdentity,
    node: NodeRecord,
    *,
    state_revision: int,
    lease_ttl_s: float,
    operated: bool,
    holdings: HoldingsRecord | None,
) -> tuple[SessionIdentity, VersionedNode] | None:
    lease = await etcd.lease_grant(lease_ttl_s)
    renewed = SessionIdentity(me.keys, me.member, lease.id)
    record = replace(node, lease=lease.id)
    result = await etcd.txn(transactions.put_back(renewed, record, state_revision, holdings=holdings))
    # Without an operator another node may have taken the slot meanwhile. Its key is older now, so it owns the slot.
    if result.succeeded and (operated or _is_oldest(parse_view(me.keys, _flatten(result)), me.member)):
        return renewed, VersionedNode(record, result.revision)
    await etcd.lease_revoke(lease.id)
    return None

"""A member's end of the leader's link: when it ends, probe the leader, and evict it if it is gone.

Without this a crashed leader would cost a whole lease. The lowest slots probe first, 10 ms apart, so that of a thousand
members only a few do. A member that sees another leader key meanwhile stops probing. An eviction compares that key.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable

from elasticjob_agent.rendezvous.leader import dial
from elasticjob_agent.rendezvous.protocol import transactions
from elasticjob_agent.rendezvous.protocol.crash_proof import DialOutcome, Link, next_step
from elasticjob_agent.rendezvous.protocol.link_handshake import Address, Hello, parse_address
from elasticjob_agent.rendezvous.protocol.transactions import SessionIdentity
from elasticjob_agent.tracing import Tracer
from elasticjob_api.records import Tombstone, TombstoneReason
from elasticjob_api.rendezvous_state import Leader
from elasticjob_etcd.errors import EtcdError
from elasticjob_etcd.interface import Etcd

STAGGER_S = 0.01

log = logging.getLogger(__name__)


class LeaderMonitor:
    """Monitors the current leader."""

    def __init__(self, *, etcd: Etcd, random_hex: Callable[[], str], trace: Tracer) -> None:
        self._etcd = etcd
        self._random_hex = random_hex
        self._trace = trace
        self._me: SessionIdentity | None = None
        self._leader: Leader | None = None
        self._lease = 0
        self._key: bytes | None = None
        self._probe_task: asyncio.Task[None] | None = None

    def update(self, me: SessionIdentity, leader: Leader | None, lease: int, key: bytes | None = None) -> None:
        """Take in the leader that the watch shows, the lease of its key, and the key of the job's links."""
        self._key = key
        if (leader, lease) != (self._leader, self._lease) and self._probe_task is not None:
            self._probe_task.cancel()
            self._probe_task = None
        self._me, self._leader, self._lease = me, leader, lease

    def link_ended(self, peer: Hello) -> None:
        """Probe the leader if `peer`, which opened the link, is the leader."""
        me, leader = self._me, self._leader
        key = self._key
        if me is None or key is None or leader is None or leader.member == me.member:
            return
        address = parse_address(leader.link)
        is_leaders = (peer.job, peer.member) == (me.keys.prefix, leader.member)
        if is_leaders and address is not None and (self._probe_task is None or self._probe_task.done()):
            self._probe_task = asyncio.create_task(self._probe(me, leader, address, key), name="probe of the leader")

    async def _probe(self, me: SessionIdentity, leader: Leader, address: Address, key: bytes) -> None:
        next_ = next_step(Link(), DialOutcome.ENDED)
        await asyncio.sleep(me.member.slot * STAGGER_S)
        while next_.dial_in_s is not None:
            await asyncio.sleep(next_.dial_in_s)
            mine = Hello(me.keys.prefix, me.member, self._random_hex() + self._random_hex())
            result = await dial.dial(address, mine, leader.member, key)
            result.close()
            next_ = next_step(next_.link, result.outcome)
        if next_.is_crashed:
            await self._evict(me, leader)

    async def _evict(self, me: SessionIdentity, leader: Leader) -> None:
        self._trace.point("closer proved gone", 0)
        txn = transactions.evict_leader(me, leader.member, self._lease, Tombstone(TombstoneReason.REFUSED))
        try:
            result = await self._etcd.txn(txn)
            if result.succeeded:  # else it has resigned, or another member has evicted it
                member = leader.member
                log.warning("the leader, slot %d (%s), is gone: it is evicted", member.slot, member.incarnation)
            if result.succeeded or result.reads[0]:  # or another member has written the tombstone
                await self._etcd.lease_revoke(self._lease)
        except EtcdError as error:
            log.warning("could not evict the leader; its lease decides: %s", error)

    async def close(self) -> None:
        """Stop probing; idempotent."""
        if self._probe_task is not None:
            self._probe_task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._probe_task
            self._probe_task = None
            await asyncio.sleep(0)  # so that the transport closes

"""One stay of a node in a job: its identity, its lease, and what it remembers of what it has written.

`enter` begins one and keeps trying while etcd is silent; `come_back` follows a lost lease: the same stay
again if the job has not moved on, else None, and the node stops its workers before it enters anew.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from elasticjob_agent.rendezvous import joining
from elasticjob_agent.rendezvous.errors import Superseded, Unreachable
from elasticjob_agent.rendezvous.joining import Profile
from elasticjob_agent.rendezvous.txns import Identity
from elasticjob_api import records
from elasticjob_api.records import Gone, GoneReason, Node, Slots
from elasticjob_api.world import State, World, decode_world
from elasticjob_etcd.errors import EtcdError, LeaseNotFound, Unavailable
from elasticjob_etcd.leases import LeaseKeeper
from elasticjob_etcd.protocol import Etcd, Lease, Range

RETRY_S = 0.25
SAY_AGAIN_S = 10.0
_BANNED = {GoneReason.SUPERSEDED, GoneReason.POD_DELETED, GoneReason.POD_FAILED}

log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class Stay:
    """One incarnation at work."""

    me: Identity
    node: Node
    spec: Slots
    ctl: Range
    keeper: LeaseKeeper
    started: tuple[int, str] | None = None
    """(round, nonce) of the workers started last."""
    done_round: int = 0
    leave_said: bool = False
    failures_said: int = 0
    opened_nonce: str = ""
    """The nonce of the round that this node tried to open last: its answer may have been lost."""
    watcher: "asyncio.Task[None] | None" = field(default=None)

    def call_when_lost(self, wake: Callable[[], None]) -> None:
        """Call `wake` once the lease is lost."""

        async def wait() -> None:
            await self.keeper.lost.wait()
            wake()

        self.watcher = asyncio.create_task(wait(), name="lease watcher")

    async def close(self) -> None:
        """Stop refreshing; the lease is left to itself."""
        await self.keeper.close()
        if self.watcher is not None:
            self.watcher.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self.watcher


@dataclass(frozen=True, slots=True, kw_only=True)
class Entrance:
    """What entering needs."""

    etcd: Etcd
    profile: Profile
    clock: Callable[[], float]
    draw: Callable[[], str]

    async def enter(self, *, master_port: int, timeout_s: float, give_up: Callable[[], bool]) -> Stay | None:
        """Begin a stay; None when `give_up` says so first. Raises Unreachable, Superseded, Refused."""
        start_s = said_s = self.clock()
        while not give_up():
            try:
                return await self._enter_once(master_port)
            except (Unavailable, LeaseNotFound) as error:
                now_s = self.clock()
                if now_s - start_s >= timeout_s:
                    raise Unreachable(f"etcd did not answer within {timeout_s:g} s: {error}") from error
                if now_s - said_s >= SAY_AGAIN_S or said_s == start_s:
                    log.warning("etcd does not answer, trying for another %g s: %s", timeout_s - now_s + start_s, error)
                    said_s = now_s
                await asyncio.sleep(RETRY_S)
        return None

    async def _enter_once(self, master_port: int) -> Stay:
        joined = await joining.join(self.etcd, self.profile, master_port=master_port, draw=self.draw)
        spec = joined.spec or self.profile.own_spec
        if spec is None:
            raise Superseded(f"nothing is wanted under {self.profile.keys.prefix}: the job was deleted, or never was")
        keeper = LeaseKeeper(self.etcd, Lease(joined.me.lease, self.profile.lease_ttl_s), self.clock)
        return Stay(me=joined.me, node=joined.node, spec=spec, ctl=joined.ctl, keeper=keeper)

    async def come_back(self, stay: Stay) -> bool:
        """Put a lost stay back under a new lease, its workers untouched; False when it has to begin anew."""
        keys, member = stay.me.keys, stay.me.member
        proof = await self.etcd.get(keys.gone(member.slot, member.incarnation))
        if proof is not None and (gone := records.decode(Gone, proof.value)).reason in _BANNED:
            raise Superseded(f"this node was evicted: {gone.reason.value} {gone.detail}".rstrip())
        found = await self.etcd.get(keys.world)
        if found is None or proof is not None or not _still_named(decode_world(found.value), stay):
            return False
        back = await joining.put_back(
            self.etcd, stay.me, stay.node, world_revision=found.mod_revision, lease_ttl_s=self.profile.lease_ttl_s
        )
        if back is None:
            return False
        await stay.close()
        stay.me, stay.node = back
        stay.keeper = LeaseKeeper(self.etcd, Lease(stay.me.lease, self.profile.lease_ttl_s), self.clock)
        return True

    async def leave_nothing(self, stay: Stay) -> None:
        """Revoke the lease of a stay that is over, if it still lives; etcd may not answer: then it expires."""
        await stay.close()
        try:
            await self.etcd.lease_revoke(stay.me.lease)
        except EtcdError as error:
            log.warning("could not revoke the lease, it expires within %g s: %s", self.profile.lease_ttl_s, error)


def _still_named(world: World, stay: Stay) -> bool:
    return (
        world.state is State.ACTIVE and stay.started == (world.round, world.nonce) and stay.me.member in world.members
    )

"""One stay of a node in a job: its identity, its lease, and what it remembers of what it has written.

`open` begins one and keeps trying while etcd is silent. `come_back` follows a lost lease: the same stay again if the
job has not moved on, else None. Then the node stops its workers before it enters anew.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from elasticjob_agent.rendezvous.errors import NoSpec, Unreachable
from elasticjob_agent.rendezvous.member import join, store_reset
from elasticjob_agent.rendezvous.member.join import JobRequirements, NodeIdentity, Ports, Watching
from elasticjob_agent.rendezvous.member.store_reset import SessionSnapshot
from elasticjob_agent.rendezvous.protocol.last_known_state import LastKnownState
from elasticjob_agent.rendezvous.protocol.transactions import SessionKeys, VersionedNode
from elasticjob_api.records import NodeRecord, SpecRecord
from elasticjob_api.rendezvous_state import RendezvousState
from elasticjob_api.runtime_config import RuntimeConfig, decode_runtime_config
from elasticjob_etcd.errors import EtcdError, LeaseNotFound, StoreReset, Unavailable
from elasticjob_etcd.interface import Etcd, KeyValue, Lease, Range
from elasticjob_etcd.leases import LeaseKeeper

TRANSIENT_ERRORS = (Unavailable, LeaseNotFound, StoreReset)
"""Trouble with etcd after which an act is tried again, from what the watch shows then."""
RETRY_S = 0.25
LOG_AGAIN_S = 10.0
SPEC_TIMEOUT_S = 30.0
"""How long a spec may be absent without meaning the end: etcd may have been wiped.

An operator writes it again. Without one the watch shows a wipe, and a node that was in the job before writes it.
"""

log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class Session:
    """One incarnation at work."""

    me: SessionKeys
    last: VersionedNode
    requirements: JobRequirements
    """As it was when this node joined."""
    ctl: Range
    keeper: LeaseKeeper
    runtime_config: RuntimeConfig = field(init=False)
    """The terms of its workers now."""
    started: tuple[int, str] | None = None
    """(round, nonce) of the workers started last."""
    last_config_bytes: bytes = b""
    """The terms that the closer wrote last."""
    done_round: int = 0
    leave_tried: bool = False
    """An act failed after this node was told to leave: its workers stop, whether or not its peers know."""
    failures_reported: int = 0
    opened_round: tuple[str, int] = ("", 0)
    """(nonce, failures told) of the round that this node opens because of them: the answer may have been lost."""

    def __post_init__(self) -> None:
        self.runtime_config = self.requirements.bootstrap.runtime_config

    @property
    def node(self) -> NodeRecord:
        """The own record, as far as it is known to be written."""
        return self.last.node

    @property
    def keep_alive_s(self) -> float:
        """Return how long the job lets an agent be silent."""
        return self.requirements.bootstrap.keep_alive_s

    def observe(self, world: RendezvousState | None) -> None:
        """Take in the world as it is seen: if it is the one this node opened, its failures are said."""
        nonce, told = self.opened_round
        if world is not None and nonce and world.nonce == nonce:
            self.failures_reported = max(self.failures_reported, told)

    def apply_config(self, config: KeyValue | None) -> None:
        """Take in what the closer says of changes in the spec, as the watch shows it. Raises RecordError."""
        if config is not None and config.value != self.last_config_bytes:
            self.last_config_bytes = config.value
            self.runtime_config = decode_runtime_config(config.value)

    def snapshot(self, last_known: LastKnownState) -> SessionSnapshot:
        """What is written back after a wipe."""
        return SessionSnapshot(
            me=self.me,
            node=self.node,
            keep_alive_s=self.keep_alive_s,
            own_spec=None if self.requirements.own is None else self.runtime_config.apply(self.requirements.own),
            last_known=last_known,
            started=self.started,
            done_round=self.done_round,
        )

    def resume_as(self, back: tuple[SessionKeys, VersionedNode], *, was_reset: bool) -> None:
        """The same stay under a new lease."""
        self.me, self.last = back
        if was_reset:
            # The round that runs is still the one in which they happened: what was said of them is forgotten.
            self.failures_reported, self.opened_round = 0, ("", 0)

    async def close(self) -> None:
        """Stop refreshing; the lease is left to itself."""
        await self.keeper.close()


def returning(
    first: NodeIdentity, last_known: LastKnownState, own_spec: SpecRecord | None, *, wipes: int, noted: int
) -> NodeIdentity:
    """The profile of a node that was in the job before, as it enters again.

    It only comes back to the job: if that has ended and is cleared away, this is the end, and not the beginning of
    another run. In a wiped store there is nothing to come back to: there the job begins again, with `own_spec`.
    Who has never seen a world cannot know: it was in no round, and is like one that starts now.
    `wipes` is how many the watch has met, `noted` how many of them `last_known` knows of.
    """
    identity = replace(first, may_clear_finished_run=False)
    if last_known.observed_here and wipes == noted:
        return replace(identity, own_spec=None, bootstrap=None)
    return identity if not wipes or own_spec is None else replace(identity, own_spec=own_spec)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFactory:
    """What entering needs."""

    etcd: Etcd
    identity: NodeIdentity
    clock: Callable[[], float]
    draw: Callable[[], str]
    link_port: int = 0
    """Where the node's link listens; 0: nowhere."""

    async def open(
        self,
        *,
        master_port: int,
        timeout_s: float,
        cancelled: Callable[[], bool],
        watching: Watching | None = None,
        profile: Callable[[], NodeIdentity] | None = None,
        is_over: Callable[[], bool] | None = None,
    ) -> Session | None:
        """Begin a stay, `watching` for its world; None when `cancelled` says so first.

        Raises Unreachable, Superseded, Refused.
        Each attempt asks for the `profile`: what the watch shows meanwhile may change it. A missing spec is the end
        after a while, and at once if `is_over`: by default where no operator gave this node its slot.
        """
        is_over = is_over or (lambda: self.identity.slot is None)
        ports = Ports(master_port, self.link_port)
        start_s = said_s = self.clock()
        while not cancelled():
            try:
                return await self._open_once(ports, self.identity if profile is None else profile(), watching)
            except TRANSIENT_ERRORS as error:
                now_s = self.clock()
                if now_s - start_s >= timeout_s:
                    raise Unreachable(f"etcd did not answer within {timeout_s:g} s: {error}") from error
                if now_s - said_s >= LOG_AGAIN_S or said_s == start_s:
                    log.warning("etcd does not answer, trying for another %g s: %s", timeout_s - now_s + start_s, error)
                    said_s = now_s
                await asyncio.sleep(RETRY_S)
            except NoSpec as error:
                if is_over() or self.clock() - start_s >= SPEC_TIMEOUT_S:
                    raise
                if said_s == start_s:
                    log.warning("%s; or etcd was wiped: waiting %g s for the spec", error, SPEC_TIMEOUT_S)
                    said_s = self.clock()
                await asyncio.sleep(RETRY_S)
        return None

    async def _open_once(self, ports: Ports, identity: NodeIdentity, watching: Watching | None) -> Session:
        result = await join.join(self.etcd, identity, ports=ports, draw=self.draw, watching=watching)
        keeper = LeaseKeeper(self.etcd, result.lease, self.clock)
        return Session(me=result.me, last=result.last, requirements=result.requirements, ctl=result.ctl, keeper=keeper)

    async def restore(self, session: Session, last_known: LastKnownState, *, was_reset: bool) -> bool:
        """Put a lost stay back under a new lease, its workers untouched; False when it has to begin anew."""
        if was_reset:
            back = await store_reset.restore(self.etcd, session.snapshot(last_known))
        else:
            back = await join.rejoin(
                self.etcd,
                session.me,
                session.node,
                operated=session.requirements.is_operated,
                started=session.started,
                lease_ttl_s=session.keep_alive_s,
                remembered=last_known.world,
            )
        if back is None:
            return False
        await session.close()
        session.resume_as(back, was_reset=was_reset)
        session.keeper = LeaseKeeper(self.etcd, Lease(session.me.lease, session.keeper.lease.ttl_s), self.clock)
        return True

    async def revoke(self, session: Session) -> None:
        """Revoke the lease of a stay that is over, if it still lives; etcd may not answer: then it expires."""
        await session.close()
        try:
            await self.etcd.lease_revoke(session.me.lease)
        except EtcdError as error:
            log.warning("could not revoke the lease, it expires within %g s: %s", session.keeper.lease.ttl_s, error)

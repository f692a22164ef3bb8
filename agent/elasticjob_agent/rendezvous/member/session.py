"""One session of a node in a job: its identity, its lease, and its record of what it has written.

`SessionFactory.open` begins one, and keeps trying while etcd does not answer. `restore` follows a lost lease: the same
session continues if the job has not gone on without it. Otherwise the node stops its workers before it joins again.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from elasticjob_agent.rendezvous.errors import NoSpec, Unreachable
from elasticjob_agent.rendezvous.member import join, store_reset
from elasticjob_agent.rendezvous.member.join import JobRequirements, NodeIdentity, Ports, Watching
from elasticjob_agent.rendezvous.member.store_reset import SessionSnapshot
from elasticjob_agent.rendezvous.protocol.interfaces import KeepPort
from elasticjob_agent.rendezvous.protocol.last_known_state import LastKnownState
from elasticjob_agent.rendezvous.protocol.transactions import SessionIdentity, VersionedNode
from elasticjob_api.holdings import HoldingsRecord
from elasticjob_api.kept_steps import PersistedStep
from elasticjob_api.records import NodeRecord, SpecRecord
from elasticjob_api.rendezvous_state import RendezvousState, RoundPhase
from elasticjob_api.runtime_config import RuntimeConfig, decode_runtime_config
from elasticjob_etcd.errors import EtcdError, LeaseNotFound, StoreReset, Unavailable
from elasticjob_etcd.interface import Etcd, KeyValue, Lease, Range
from elasticjob_etcd.leases import LeaseKeeper

TRANSIENT_ERRORS = (Unavailable, LeaseNotFound, StoreReset)
"""Errors of etcd after which a step is tried again, from the state that the watch shows then."""
RETRY_S = 0.25
LOG_AGAIN_S = 10.0
SPEC_TIMEOUT_S = 30.0
"""Seconds for which a missing spec does not mean the end of the job: etcd may have been wiped.

An operator writes it again. Without one the watch shows a wipe, and a node that was in the job before writes it.
"""

log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class Session:
    """One session with its state."""

    me: SessionIdentity
    last: VersionedNode
    requirements: JobRequirements
    """As they were when this node joined."""
    ctl: Range
    keeper: LeaseKeeper
    runtime_config: RuntimeConfig = field(init=False)
    """The current runtime config of its workers."""
    started: tuple[int, str] | None = None
    """(round, nonce) of the workers started last."""
    last_config_bytes: bytes = b""
    """The runtime config that the leader wrote last."""
    done_round: int = 0
    sealed: str = ""
    """The nonce of the last state for which the holdings at the end were reported, or that was tried."""
    has_reported_list: bool = False
    """Whether the holdings were written since this node has listed the shared directory, or it has none."""
    reported_on_disk: tuple[PersistedStep | None, ...] = ()
    """The steps of the shared directory in the holdings that were written last."""
    leave_tried: bool = False
    """Whether a step failed after a request to leave: the workers stop, whether or not the peers know."""
    failures_reported: int = 0
    opened_round: tuple[str, int] = ("", 0)
    """(nonce, number of reported failures) of the round that this node opens for them: the answer may be lost."""

    def __post_init__(self) -> None:
        self.runtime_config = self.requirements.bootstrap.runtime_config

    @property
    def node(self) -> NodeRecord:
        """The own record, as last known to be written."""
        return self.last.node

    @property
    def keep_alive_s(self) -> float:
        """The seconds for which the job lets an agent be silent."""
        return self.requirements.bootstrap.keep_alive_s

    def observe(self, state: RendezvousState | None) -> None:
        """Take in the state: if it is the one that this node opened, its failures are reported."""
        nonce, reported = self.opened_round
        if state is not None and nonce and state.nonce == nonce:
            self.failures_reported = max(self.failures_reported, reported)

    def note_reported(self, holdings: HoldingsRecord | None) -> None:
        """Take in the holdings that are in etcd now."""
        self.has_reported_list = holdings is None or holdings.has_listed is not False
        self.reported_on_disk = _on_disk(holdings)

    def has_list_news(self, holdings: HoldingsRecord | None, state: RendezvousState | None) -> bool:
        """Return whether the leader has to know a list of the shared directory that is not in etcd yet.

        A round that forms must not miss a step that becomes whole after `ready`: its parts in memory may be lost.
        """
        if holdings is None or not holdings.has_listed:
            return False
        forms = state is not None and state.phase is RoundPhase.FORMING
        return not self.has_reported_list or (forms and _on_disk(holdings) != self.reported_on_disk)

    def apply_config(self, config: KeyValue | None) -> None:
        """Take in the leader's runtime config, as the watch shows it. Raises RecordError."""
        if config is not None and config.value != self.last_config_bytes:
            self.last_config_bytes = config.value
            self.runtime_config = decode_runtime_config(config.value)

    def snapshot(self, last_known: LastKnownState, holdings: HoldingsRecord | None = None) -> SessionSnapshot:
        """Return the data that is written back after a wipe."""
        return SessionSnapshot(
            me=self.me,
            node=self.node,
            keep_alive_s=self.keep_alive_s,
            own_spec=None if self.requirements.own is None else self.runtime_config.apply(self.requirements.own),
            last_known=last_known,
            started=self.started,
            done_round=self.done_round,
            holdings=holdings,
        )

    def resume_as(self, back: tuple[SessionIdentity, VersionedNode], *, was_reset: bool) -> None:
        """Continue the session under a new lease."""
        self.me, self.last = back
        if was_reset:
            # The round of the failures still runs, and the wipe has deleted their records: report them again.
            self.failures_reported, self.opened_round = 0, ("", 0)

    async def close(self) -> None:
        """Stop renewing the lease, and let it expire."""
        await self.keeper.close()


def _on_disk(holdings: HoldingsRecord | None) -> tuple[PersistedStep | None, ...]:
    return () if holdings is None else (holdings.persisted, *holdings.older)


def next_identity(
    first: NodeIdentity, last_known: LastKnownState, own_spec: SpecRecord | None, *, resets: int, known_resets: int
) -> NodeIdentity:
    """Return the identity of a node that was in the job before, for its next session.

    The node only returns to its job. If the job has ended and is deleted, the node ends too, and begins no other run.
    In a wiped store no job is left, so the job begins again, with `own_spec`. A node that has never received a state
    was in no round; it is like a node that starts now. `resets` is the number of wipes that the watch has met,
    `known_resets` the number that `last_known` includes.
    """
    identity = replace(first, may_clear_finished_run=False)
    if last_known.observed_here and resets == known_resets:
        return replace(identity, own_spec=None, bootstrap=None)
    return identity if not resets or own_spec is None else replace(identity, own_spec=own_spec)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFactory:
    """Opens and restores sessions."""

    etcd: Etcd
    identity: NodeIdentity
    clock: Callable[[], float]
    random_hex: Callable[[], str]
    keep: KeepPort
    link_port: int = 0
    """The port of the node's link listener; 0 if there is none."""

    async def open(
        self,
        *,
        master_port: int,
        timeout_s: float,
        cancelled: Callable[[], bool],
        watching: Watching | None = None,
        make_identity: Callable[[], NodeIdentity] | None = None,
        is_over: Callable[[], bool] | None = None,
    ) -> Session | None:
        """Begin a session, with `watching` for its state; return None if `cancelled` returns True first.

        Raises Unreachable, Superseded. Each attempt calls `make_identity`, because the watch may have changed it. A
        missing spec is the end after a while, and at once if `is_over`: by default if no operator gave this node its
        slot.
        """
        is_over = is_over or (lambda: self.identity.slot is None)
        ports = Ports(master_port, self.link_port)
        start_s = logged_s = self.clock()
        while not cancelled():
            try:
                return await self._open_once(
                    ports, self.identity if make_identity is None else make_identity(), watching
                )
            except TRANSIENT_ERRORS as error:
                now_s = self.clock()
                if now_s - start_s >= timeout_s:
                    raise Unreachable(f"etcd did not answer within {timeout_s:g} s: {error}") from error
                if now_s - logged_s >= LOG_AGAIN_S or logged_s == start_s:
                    left_s = timeout_s - now_s + start_s
                    log.warning("etcd does not answer, trying for another %.0f s: %s", left_s, error)
                    logged_s = now_s
                await asyncio.sleep(RETRY_S)
            except NoSpec as error:
                if is_over() or self.clock() - start_s >= SPEC_TIMEOUT_S:
                    raise
                if logged_s == start_s:
                    log.warning("%s; or etcd was wiped: waiting %g s for the spec", error, SPEC_TIMEOUT_S)
                    logged_s = self.clock()
                await asyncio.sleep(RETRY_S)
        return None

    async def _open_once(self, ports: Ports, identity: NodeIdentity, watching: Watching | None) -> Session:
        holdings = self.keep.holdings
        result = await join.join(
            self.etcd,
            identity,
            ports=ports,
            random_hex=self.random_hex,
            watching=watching,
            holdings=holdings,
        )
        keeper = LeaseKeeper(self.etcd, result.lease, self.clock)
        session = Session(
            me=result.me, last=result.last, requirements=result.requirements, ctl=result.ctl, keeper=keeper
        )
        session.note_reported(holdings)
        return session

    async def restore(self, session: Session, last_known: LastKnownState, *, was_reset: bool) -> bool:
        """Continue a session under a new lease, its workers untouched; return False if the node must join again."""
        holdings = self.keep.holdings
        if was_reset:
            back = await store_reset.restore(self.etcd, session.snapshot(last_known, holdings))
        else:
            back = await join.rejoin(
                self.etcd,
                session.me,
                session.node,
                operated=session.requirements.is_operated,
                started=session.started,
                lease_ttl_s=session.keep_alive_s,
                remembered=last_known.state,
                holdings=holdings,
            )
        if back is None:
            return False
        await session.close()
        session.resume_as(back, was_reset=was_reset)
        session.note_reported(holdings)
        session.keeper = LeaseKeeper(self.etcd, Lease(session.me.lease, session.keeper.lease.ttl_s), self.clock)
        return True

    async def revoke(self, session: Session) -> None:
        """Revoke the lease of an ended session; if etcd does not answer, the lease expires by itself."""
        await session.close()
        try:
            await self.etcd.lease_revoke(session.me.lease)
        except EtcdError as error:
            log.warning("could not revoke the lease, it expires within %g s: %s", session.keeper.lease.ttl_s, error)

"""One node's part in a job: join, follow the rendezvous state, drive the workers, leave.

The member watches `P/c/ctl/` (state and leader, in one watch), keeps one lease alive, and asks
`member_plan.next_step` after each change. It takes one step at a time, so no two transactions of one node compete.
Trouble with etcd never stops a healthy worker: steps wait, workers continue.
"""

import asyncio
import logging
import math
from collections.abc import Callable

from elasticjob_agent.rendezvous.leader.election import Election, leader_in
from elasticjob_agent.rendezvous.member.executor import StepContext, StepExecutor, StepResult
from elasticjob_agent.rendezvous.member.join import NodeIdentity
from elasticjob_agent.rendezvous.member.leader_monitor import LeaderMonitor
from elasticjob_agent.rendezvous.member.link_listener import LinkListener
from elasticjob_agent.rendezvous.member.session import (
    LOG_AGAIN_S,
    RETRY_S,
    TRANSIENT_ERRORS,
    Session,
    SessionFactory,
    next_identity,
)
from elasticjob_agent.rendezvous.protocol import mass_loss_grace, transactions
from elasticjob_agent.rendezvous.protocol.interfaces import KeepPort, Outcome, WorkersPort
from elasticjob_agent.rendezvous.protocol.last_known_state import LastKnownState
from elasticjob_agent.rendezvous.protocol.member_plan import (
    MemberState,
    RestorePhase,
    Step,
    StepKind,
    Workers,
    next_step,
)
from elasticjob_agent.tracing import Tracer
from elasticjob_api.constants import JOIN_TIMEOUT_S
from elasticjob_api.errors import RecordError
from elasticjob_api.exit_codes import ExitCode
from elasticjob_api.link_secret import decode_link_secret
from elasticjob_api.records import SpecRecord
from elasticjob_api.rendezvous_state import RendezvousState, RoundPhase
from elasticjob_api.trace_points import SAW
from elasticjob_etcd.interface import Etcd
from elasticjob_etcd.mirror import Mirror

log = logging.getLogger(__name__)

_KEY_IS_GONE = "the own key is gone"


class RendezvousMember:
    """One node of a job; `run` returns when the node's part has ended."""

    def __init__(
        self,
        *,
        etcd: Etcd,
        identity: NodeIdentity,
        workers: WorkersPort,
        clock: Callable[[], float],
        random_hex: Callable[[], str],
        trace: Tracer,
        keep: KeepPort,
        join_timeout_s: float = JOIN_TIMEOUT_S,
    ) -> None:
        """`random_hex` returns eight random hex digits, `clock` monotonic seconds."""
        self._etcd = etcd
        self._identity, self._keys = identity, identity.keys
        self._workers = workers
        self._random_hex = random_hex
        self._trace = trace
        self._join_timeout_s = join_timeout_s
        self._keep = keep
        self._wake = asyncio.Event()
        self._election = Election(etcd=etcd, clock=clock, random_hex=random_hex, trace=trace, wake=self._wake.set)
        self._executor = StepExecutor(
            etcd=etcd, workers=workers, random_hex=random_hex, trace=trace, election=self._election, keep=self._keep
        )
        self._leader_monitor = LeaderMonitor(etcd=etcd, random_hex=random_hex, trace=trace)
        self._leave_requested, self._leave_requested_s = False, math.inf
        self._clock = clock
        self._last_known = LastKnownState()
        self._stale_revision: int | None = None
        self._store_resets = 0
        self._store_was_reset = False
        self._settle_until_s = 0.0
        self._rejoined_s = -math.inf
        self._election.lease_doubt_until = self._lease_doubt_until
        self.session: Session | None = None
        self.on_state: Callable[[RendezvousState], None] = lambda _state: None
        workers.on_change = self._keep.on_change = self._wake.set

    def request_leave(self) -> None:
        """Leave in order, as after SIGTERM."""
        self._leave_requested, self._leave_requested_s = True, min(self._leave_requested_s, self._clock())
        self._wake.set()

    def session_lost(self) -> None:
        """Handle a refused report: the own key is gone."""
        if self.session is not None:
            self.session.keeper.mark_lost(_KEY_IS_GONE)

    async def run(self) -> Outcome:
        """Take part until the job ends or this node leaves; raise RendezvousError, EtcdError."""
        self._listener = LinkListener(
            self._identity.address, random_hex=self._random_hex, on_end=self._leader_monitor.link_ended
        )
        try:
            await self._open_link()
            async with Mirror(self._etcd, self._keys.ctl, seed_later=True, on_change=self._wake.set) as mirror:
                self._mirror = mirror
                session = await self._open_session()
                if session is None:
                    return Outcome(ExitCode.LEFT, "left before joining")
                mirror.seed(session.ctl, empty_is_reset=session.requirements.is_operated)
                try:
                    return await self._loop()
                finally:
                    await self._end()
        finally:
            # Last, because the end of the listener's links shows the leader that this process is gone.
            await self._listener.close()

    async def _open_link(self) -> None:
        await self._listener.open()
        address = self._listener.address
        self._election.link = "" if address is None else str(address)
        self._sessions = SessionFactory(
            etcd=self._etcd,
            identity=self._identity,
            clock=self._clock,
            random_hex=self._random_hex,
            link_port=0 if address is None else address.port,
            keep=self._keep,
        )

    async def _end(self) -> None:
        try:
            await self._leader_monitor.close()
            await self._stop_workers(fast=True)
        finally:  # the workers may have failed by a fault of ours, which is raised again
            await self._election.close()
            if self.session is not None:
                await self.session.close()

    async def _open_session(self, make_identity: Callable[[], NodeIdentity] | None = None) -> Session | None:
        session = await self._sessions.open(
            master_port=self._workers.renew_master_port(),
            timeout_s=self._join_timeout_s,
            cancelled=lambda: self._leave_requested,
            watching=self._mirror.wait_watching,
            make_identity=make_identity,
            is_over=None if make_identity is None else lambda: self._last_known.deleted,
        )
        self.session = session
        if session is not None:
            self._listener.set_identity(self._keys.prefix, session.me.member)
            session.keeper.on_lost = self._wake.set
            self._trace.point("joined", 0)
            log.info("joined as slot %d, incarnation %s", session.me.member.slot, session.me.member.incarnation)
        return session

    # -- the loop --------------------------------------------------------------------------------

    async def _loop(self) -> Outcome:
        while self.session is not None:
            self._wake.clear()
            if self._mirror.failure is not None:
                raise self._mirror.failure
            session = self.session
            self._on_store_reset(session)
            self._observe()
            self._apply_pushed(session)
            if session.keeper.lost.is_set() and not self._last_known.ended:
                if not await self._recover(session):
                    return Outcome(ExitCode.LEFT, "left while etcd did not answer")
                continue
            leader_kv = self._mirror.items.get(self._keys.leader)
            lease, key = leader_kv.lease if leader_kv else 0, self._listener.key
            # After the end all agents exit, the leader too: no member monitors it any more.
            monitored = None if self._last_known.ended else leader_in(leader_kv)
            self._leader_monitor.update(session.me, monitored, lease, key)
            await self._election.update(session.me, leader_kv, may_campaign=not self._leave_requested)
            step = next_step(self._member_state(session))
            if step.kind is StepKind.EXIT:
                return await self._exit(session, step)
            if step.kind is StepKind.LEAVE:
                return await self._leave(session)
            if step.kind is StepKind.WAIT or self._last_known.revision == self._stale_revision:
                await self._wake.wait()
                continue
            await self._execute(session, step)
        return Outcome(ExitCode.LEFT, "left")

    def _observe(self) -> None:
        """Take in the newest state of the watch; an unreadable one counts as unchanged."""
        try:
            is_news = self._last_known.observe(self._mirror.items.get(self._keys.rendezvous_state))
        except RecordError as error:
            log.warning("ignored %s: %s", self._keys.rendezvous_state, error)
            return
        if is_news and (state := self._last_known.state) is not None:
            self._election.observe(state)
            self._trace.point(SAW[state.phase], state.round)
            self.on_state(state)

    def _apply_pushed(self, session: Session) -> None:
        """Take in what the leader has pushed besides the state; an unreadable record counts as unchanged."""
        try:
            session.apply_config(self._mirror.items.get(self._keys.runtime_config))
            if (key := self._mirror.items.get(self._keys.link_secret)) is not None:
                self._listener.key = decode_link_secret(key.value)
        except RecordError as error:
            log.warning("ignored a record under %s: %s", self._keys.ctl, error)

    def _on_store_reset(self, session: Session) -> None:
        """Begin the recovery from a wipe: all agents rejoin, and no round opens or closes for one lease period."""
        if self._mirror.store_resets == self._store_resets:
            return
        self._store_resets = self._mirror.store_resets
        self._last_known.forget_revisions()
        self._stale_revision = None
        self._settle_until_s = self._election.settle_until_s = self._clock() + session.keep_alive_s
        asyncio.get_running_loop().call_later(session.keep_alive_s, self._wake.set)
        log.warning("etcd was wiped or restored; writing back what this node knows")
        self._trace.point("wiped", self._last_known.state.round if self._last_known.state else 0)
        self._store_was_reset = True
        session.keeper.mark_lost("etcd was wiped or restored")

    def _lease_doubt_until(self) -> float:
        """Return until when unreachable members may be the fault of etcd, which has not answered this node either."""
        if self.session is None:
            return 0.0
        timeout_s = max(self.session.keep_alive_s, mass_loss_grace.MIN_GRACE_S)
        return max(self._rejoined_s, self.session.keeper.stalled_at_s) + timeout_s

    def _member_state(self, session: Session) -> MemberState:
        state = self._last_known.state
        session.observe(state)
        self._keep.observe(session.me.member, link_secret=self._listener.key, leads=self._election.is_leader)
        restore = self._restore_phase(state)
        holdings = self._keep.holdings  # after that: which steps count follows from the state
        return MemberState(
            me=session.me.member,
            state=state,
            deleted=self._last_known.deleted,
            workers=self._workers.phase,
            started=session.started,
            unreported_failures=len(self._workers.failures) > session.failures_reported,
            ready=session.node.ready,
            has_keeper=holdings is not None,
            has_holdings=holdings is not None and bool(holdings.steps),
            has_listed_since=session.has_list_news(holdings, state),
            persists=holdings is not None and self._keep.persists,
            has_sealed=state is not None and session.sealed == state.nonce,
            lingers=self._lingers(session, state),
            restore=restore,
            done_round=session.done_round,
            settling=self._clock() < self._settle_until_s,
            leave_requested=self._leave_requested,
            leave_reported=session.node.leaving,
            leave_tried=session.leave_tried,
            may_still_report=self._clock() < self._leave_requested_s + self._keep.linger_s,
        )

    def _restore_phase(self, state: RendezvousState | None) -> RestorePhase:
        """Return the phase; the keeper gets to know a round only when no worker of an older one publishes any more."""
        if state is None or self._workers.phase not in {Workers.NONE, Workers.SUCCEEDED}:
            return RestorePhase.PREPARING
        return self._keep.restore_phase(state)

    def _lingers(self, session: Session, state: RendezvousState | None) -> bool:
        """Return whether something is left to do for this node's steps; a seal has come before."""
        if state is None or self._workers.phase not in {Workers.NONE, Workers.SUCCEEDED}:
            return False
        if state.phase is RoundPhase.SUSPENDED or state.phase.is_final:
            return self._keep.persists and session.sealed == state.nonce and self._keep.lingers(state)
        has_reported = state.phase is not RoundPhase.FORMING or session.node.ready == state.round
        return self._leave_requested and session.node.leaving and has_reported and self._keep.lingers(state)

    async def _execute(self, session: Session, step: Step) -> None:
        context = StepContext(session, self._last_known.state, self._last_known.revision)
        try:
            result = await self._executor.execute(context, step)
        except TRANSIENT_ERRORS as error:
            log.warning("could not %s, trying again: %s", step.kind.value, error)
            session.leave_tried = session.leave_tried or self._leave_requested
            await asyncio.sleep(RETRY_S)
            self._wake.set()
            return
        if result is StepResult.KEY_LOST:
            session.keeper.mark_lost(_KEY_IS_GONE)
        if result in {StepResult.STATE_CHANGED, StepResult.STATE_UNREADABLE}:
            self._stale_revision = self._last_known.revision  # no decision before the watch shows the new state

    # -- a lost lease ----------------------------------------------------------------------------

    async def _recover(self, session: Session) -> bool:
        """Rejoin, or stop the workers and join again; return False if the node is to leave meanwhile."""
        log.warning("lost the lease of this session (%s); rejoining", session.keeper.reason)
        self._trace.point("lost", self._last_known.state.round if self._last_known.state else 0)
        await self._election.close()
        logged_s = -math.inf
        while not self._leave_requested or self._lingers(session, self._last_known.state):
            self._on_store_reset(session)
            self._observe()
            if self._last_known.deleted:
                return True  # the loop ends the job
            try:
                if await self._sessions.restore(session, self._last_known, was_reset=self._store_was_reset):
                    self._store_was_reset = False
                    self._rejoined_s = self._clock()
                    session.keeper.on_lost = self._wake.set
                    log.info("rejoined under a new lease; the workers were not touched")
                    return True
                break
            except TRANSIENT_ERRORS as error:
                if (now_s := self._clock()) - logged_s >= LOG_AGAIN_S:
                    log.warning("etcd does not answer (workers: %s): %s", self._workers.phase.value, error)
                    logged_s = now_s
                await asyncio.sleep(RETRY_S)
        log.info("stopping the workers: the job has continued without this session, or this node leaves")
        await self._stop_workers(fast=False)
        await self._finish_drain(session)
        await self._sessions.revoke(session)
        self.session = None
        if self._leave_requested:
            return False
        self._store_was_reset = False
        await self._keep.seal()  # the next session has run nothing: a leader uses the holdings of its join
        return await self._open_session(lambda: self._next_identity(session.requirements.own)) is not None

    async def _finish_drain(self, session: Session) -> None:
        """Wait until the last steps of a suspended job are on disk: a leaving node needs no session for that."""
        state = self._last_known.state
        while self._leave_requested and state and state.phase is RoundPhase.SUSPENDED and self._lingers(session, state):
            self._wake.clear()
            await self._wake.wait()
            self._observe_same_store()
            state = self._last_known.state

    def _next_identity(self, own_spec: SpecRecord | None) -> NodeIdentity:
        """Return the identity for the next session; etcd may have been wiped, or the job deleted, in the meantime."""
        self._observe_same_store()
        return next_identity(
            self._identity,
            self._last_known,
            own_spec,
            resets=self._mirror.store_resets,
            known_resets=self._store_resets,
        )

    def _observe_same_store(self) -> None:
        """Take in the newest state, unless there was a wipe: the next session detects that and writes back."""
        if self._mirror.store_resets == self._store_resets:
            self._observe()

    async def _stop_workers(self, *, fast: bool) -> None:
        """Stop all workers and wait until they have stopped; the caller takes no step until then."""
        while self._workers.phase not in {Workers.NONE, Workers.SUCCEEDED}:
            self._wake.clear()
            self._observe_same_store()
            if self._workers.phase is not Workers.STOPPING and self.session is not None:
                self._executor.stop(self.session, fast=fast)
            await self._wake.wait()

    # -- the end ---------------------------------------------------------------------------------

    async def _leave(self, session: Session) -> Outcome:
        await self._election.close()
        try:
            await self._etcd.txn(transactions.write_left_tombstone(session.me))
        except TRANSIENT_ERRORS as error:
            log.warning("could not report that this node leaves; it will count as lost when its lease ends: %s", error)
        await self._sessions.revoke(session)
        self.session = None
        return Outcome(ExitCode.LEFT, "left in order")

    async def _exit(self, session: Session, step: Step) -> Outcome:
        state = self._last_known.state
        await self._election.close()
        await self._sessions.revoke(session)
        self.session = None
        if not session.requirements.is_operated and state is not None:
            await self._delete_stale(self._last_known.revision)
        if step.code is not None:
            return Outcome(step.code, "the job was deleted" if state is None else state.cause.value, state)
        if state is None:
            raise AssertionError("a failed job has a state")
        return Outcome.of_failed(state, self._workers.failures)

    async def _delete_stale(self, revision: int) -> None:
        """Without an operator the last agent that exits deletes the finished run; after a crash the next run does."""
        try:
            if not (await self._etcd.range(self._keys.nodes)).kvs:
                await self._etcd.txn(transactions.delete_finished_run(self._keys, revision))
        except TRANSIENT_ERRORS as error:
            log.warning("could not delete the finished run: %s", error)

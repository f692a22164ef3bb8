"""One simulated agent: the loops of `RendezvousMember`, `Election` and `RoundLeader`, one turn at a time.

Decisions and writes are the product's (`next_step`, `StepExecutor`, `join`, `plan`, `RoundLeader._execute`). Only the
order of a turn is written again here, because the product's own loop waits for events.
"""

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from elasticjob_agent.rendezvous.errors import NoSpec, Superseded
from elasticjob_agent.rendezvous.leader.campaign import Campaign
from elasticjob_agent.rendezvous.leader.round_leader import RoundLeader
from elasticjob_agent.rendezvous.member import join, store_reset
from elasticjob_agent.rendezvous.member.executor import StepContext, StepExecutor, StepResult
from elasticjob_agent.rendezvous.member.join import NodeIdentity, Ports
from elasticjob_agent.rendezvous.member.leader_monitor import LeaderMonitor
from elasticjob_agent.rendezvous.member.session import TRANSIENT_ERRORS, Session, next_identity
from elasticjob_agent.rendezvous.protocol import transactions
from elasticjob_agent.rendezvous.protocol.interfaces import KeepPort
from elasticjob_agent.rendezvous.protocol.last_known_state import LastKnownState
from elasticjob_agent.rendezvous.protocol.leader_plan import Evict, Wait, WriteState, plan
from elasticjob_agent.rendezvous.protocol.mass_loss_grace import MIN_GRACE_S
from elasticjob_agent.rendezvous.protocol.member_plan import (
    MemberState,
    RestorePhase,
    Step,
    StepKind,
    Workers,
    next_step,
)
from elasticjob_agent.rendezvous.protocol.ranks import Assignment
from elasticjob_agent.rendezvous.protocol.transactions import SessionIdentity, VersionedNode
from elasticjob_agent.tracing import Tracer
from elasticjob_api.bootstrap import Bootstrap
from elasticjob_api.exit_codes import ExitCode
from elasticjob_api.keys import Keys
from elasticjob_api.records import SpecRecord
from elasticjob_api.rendezvous_state import Member, decode_leader
from elasticjob_api.rendezvous_view import parse_view
from tests.unit.rendezvous.sim.invariants import InvariantChecker
from tests.unit.rendezvous.sim.wire import Crashed, LateMirror, SimEtcd, now
from tests.unit.rendezvous.sim.workers import SimWorkers

if TYPE_CHECKING:
    from elasticjob_agent.rendezvous.leader.election import Election
    from elasticjob_etcd.leases import LeaseKeeper
    from tests.unit.rendezvous.sim.job import SimJob

_NO_TRACE = Tracer(None, "")


@dataclass
class _ElectionState:
    """The part of an election that `StepExecutor` uses."""

    is_leader: bool = False


class SimNode:
    """One agent process from its start to its end."""

    def __init__(
        self, job: "SimJob", pod: str, slot: int | None, own_spec: SpecRecord | None, brief: Bootstrap | None = None
    ) -> None:
        self.job = job
        self.pod = pod
        self.slot = slot
        self.etcd = SimEtcd(job.store)
        self.workers = SimWorkers(self._on_start)
        self.keep: KeepPort = job.make_keep()
        self.session: Session | None = None
        self.mirror: LateMirror | None = None
        self.outcome: int | None = None
        self.dead = False
        self.lost = False
        self.leave_requested = False
        self.is_candidate = False
        self.leading: RoundLeader | None = None
        self.leader_mirror: LateMirror | None = None
        self.proved: frozenset[Member] = frozenset()
        """Members whose links to this leader have ended and that refused a later dial."""
        self.wait_until_s: float | None = None
        self.running_as: Member | None = None
        self.saw_final = False
        self._closing_as: SessionIdentity | None = None
        self._anew = False
        self.last_known = LastKnownState()
        self.known_resets = 0
        self.wiped = False
        self._stale_revision: int | None = None
        self._quiet_until_s = self.shaken_until_s = 0.0
        self._newest_started = 0
        self._election = _ElectionState()
        self._identity = NodeIdentity(
            keys=job.keys,
            pod=pod,
            pod_uid=f"uid of {pod}",
            host=pod,
            address="10.0.0.1",
            nproc=2,
            slot=slot,
            bootstrap=brief,
            own_spec=own_spec,
        )
        self._acts = StepExecutor(
            etcd=self.etcd,
            workers=self.workers,
            random_hex=job.random_hex,
            trace=_NO_TRACE,
            election=cast("Election", self._election),
            keep=self.keep,
        )

    @property
    def alive(self) -> bool:
        """Whether the process exists."""
        return not self.dead and self.outcome is None

    @property
    def healthy(self) -> bool:
        """Whether it will remain and can stop its workers."""
        return self.alive and not self.leave_requested and not self.workers.wedged

    @property
    def keys(self) -> Keys:
        return self.job.keys

    @property
    def checker(self) -> InvariantChecker:
        return self.job.checker

    def _on_start(self, place: Assignment) -> None:
        assert self.session is not None
        assert not self.saw_final, "6: started after a final state was seen"
        assert place.round >= self._newest_started, f"11: round {place.round} after {self._newest_started}"
        self._newest_started = place.round
        self.job.check_restored(self, place)
        self.running_as = self.session.me.member
        self.checker.observe_start(self.running_as, place)

    # -- one turn of the member's loop -----------------------------------------------------------

    def turn(self) -> bool:
        """Take one turn; return whether there was something to do."""
        if not self.alive:
            return False
        try:
            return self._turn()
        except TRANSIENT_ERRORS:
            return True
        except Crashed:
            self.kill()
            return True
        except Superseded as error:
            if isinstance(error, NoSpec) and self.mirror is not None and not self.last_known.deleted:
                return False  # it waits for the spec, or for the watch to show a deletion
            self._end(ExitCode.SUPERSEDED)
            return True

    def _turn(self) -> bool:
        session = self.session
        if session is None:
            return self._join()
        assert self.mirror is not None
        if self._anew:
            self._observe_same_store(self.mirror)
            return self._stop_and_join_again(session)
        self._on_store_reset(session)
        self._observe()
        session.apply_config(self.mirror.items.get(self.keys.runtime_config))
        if self.lost and not self.last_known.ended:
            return self._recover(session)
        self._elect(session)
        step = next_step(self._member_state(session))
        if step.kind is StepKind.EXIT:
            self._leave_nothing(session)
            self._end(ExitCode.FAILED if step.code is None else step.code)
        elif step.kind is StepKind.LEAVE:
            self._leave(session)
        elif step.kind is StepKind.WAIT or self.last_known.revision == self._stale_revision:
            return False
        else:
            self._execute(session, step)
        return True

    def _join(self) -> bool:
        # An agent that joins first after the end of a run would begin another: that is no part of this history.
        if self.leave_requested or (self.mirror is None and self.job.ended):
            self._end(ExitCode.LEFT)
            return True
        identity = self._identity if self.mirror is None else self._next_identity(self.mirror)
        ports = Ports(self.workers.renew_master_port())
        holdings = self.keep.holdings
        joined = now(join.join(self.etcd, identity, ports=ports, random_hex=self.job.random_hex, holdings=holdings))
        keeper = cast("LeaseKeeper", None)
        self.session = Session(
            me=joined.me, last=joined.last, requirements=joined.requirements, ctl=joined.ctl, keeper=keeper
        )
        if self.mirror is None:
            self.mirror = LateMirror(self.job.store, self.keys.ctl, joined.ctl)
        self.lost = self.wiped = False
        return True

    def _next_identity(self, mirror: LateMirror) -> NodeIdentity:
        self._observe_same_store(mirror)
        return next_identity(
            self._identity,
            self.last_known,
            self._identity.own_spec,
            resets=mirror.wiped,
            known_resets=self.known_resets,
        )

    def _observe_same_store(self, mirror: LateMirror) -> None:
        if mirror.wiped == self.known_resets:
            self._observe()

    def _observe(self) -> None:
        assert self.mirror is not None
        if (
            self.last_known.observe(self.mirror.items.get(self.keys.rendezvous_state))
            and self.last_known.state is not None
        ):
            self.saw_final = self.saw_final or self.last_known.state.phase.is_final

    def _on_store_reset(self, session: Session) -> None:
        assert self.mirror is not None
        if self.mirror.wiped == self.known_resets:
            return
        self.known_resets = self.mirror.wiped
        self.last_known.forget_revisions()
        self._stale_revision = None
        self._quiet_until_s = self.job.now_s + session.keep_alive_s
        self.wiped = self.lost = True

    def _member_state(self, session: Session) -> MemberState:
        state, holdings = self.last_known.state, self.keep.holdings
        session.observe(state)
        self.keep.observe(session.me.member, link_secret=None, leads=self._election.is_leader)
        return MemberState(
            me=session.me.member,
            state=state,
            deleted=self.last_known.deleted,
            workers=self.workers.phase,
            started=session.started,
            unreported_failures=len(self.workers.failures) > session.failures_reported,
            ready=session.node.ready,
            has_keeper=holdings is not None,
            has_holdings=holdings is not None and bool(holdings.steps),
            restore=RestorePhase.NOT_NEEDED if state is None else self.keep.restore_phase(state),
            done_round=session.done_round,
            settling=self.job.now_s < self._quiet_until_s,
            leave_requested=self.leave_requested,
            leave_reported=session.node.leaving,
            leave_tried=session.leave_tried,
        )

    def _execute(self, session: Session, step: Step) -> None:
        try:
            result = now(
                self._acts.execute(StepContext(session, self.last_known.state, self.last_known.revision), step)
            )
        except TRANSIENT_ERRORS:
            if self.leave_requested:
                session.leave_tried = True
            return
        if result is StepResult.KEY_LOST:
            self.lost = True
        if result is StepResult.STATE_CHANGED:
            self._stale_revision = self.last_known.revision

    # -- a lost lease ----------------------------------------------------------------------------

    def notice(self) -> bool:
        """Do what the lease's keeper does: ask etcd, and report that the lease is lost."""
        if (
            not self.alive
            or self.session is None
            or self.lost
            or self.job.store.refreshes(self.session.me.lease) is not None
        ):
            return False
        self.lost = True
        return True

    def _recover(self, session: Session) -> bool:
        self._close_election()
        if not self.leave_requested:
            back = self._restore(session)
            if back is not None:
                session.resume_as(back, was_reset=self.wiped)
                self.shaken_until_s = self.job.now_s + MIN_GRACE_S
                self.lost = self.wiped = False
                return True
        self._anew = True
        return True

    def _restore(self, session: Session) -> tuple[SessionIdentity, VersionedNode] | None:
        if self.wiped:
            return now(store_reset.restore(self.etcd, session.snapshot(self.last_known, self.keep.holdings)))
        operated, started, ttl_s = session.requirements.is_operated, session.started, session.keep_alive_s
        remembered = self.last_known.state
        return now(
            join.rejoin(
                self.etcd,
                session.me,
                session.node,
                operated=operated,
                started=started,
                lease_ttl_s=ttl_s,
                remembered=remembered,
                holdings=self.keep.holdings,
            )
        )

    def _stop_and_join_again(self, session: Session) -> bool:
        if self.workers.alive:
            if self.workers.phase is Workers.STOPPING:
                return False
            self._acts.stop(session, fast=False)
            return True
        self._leave_nothing(session)
        now(self.keep.seal())
        self.session, self._anew = None, False
        return True

    # -- the end ---------------------------------------------------------------------------------

    def _leave(self, session: Session) -> None:
        self._close_election()
        with contextlib.suppress(*TRANSIENT_ERRORS):
            now(self.etcd.txn(transactions.write_left_tombstone(session.me)))
        self._leave_nothing(session)
        self._end(ExitCode.LEFT)

    def _leave_nothing(self, session: Session) -> None:
        with contextlib.suppress(*TRANSIENT_ERRORS):
            now(self.etcd.lease_revoke(session.me.lease))

    def _end(self, code: int) -> None:
        """Exit by itself; what `_end` of the member does has been done."""
        self._close_election()
        self.workers.phase = Workers.NONE
        self.outcome = int(code)

    def kill(self) -> None:
        """Send SIGKILL: workers end with it, its lease expires later."""
        self._close_election()
        self.dead = True
        self.workers.phase = Workers.NONE

    def leftovers(self) -> list[int]:
        """Return leases that no agent renews any more: sooner or later they expire."""
        in_use = self.session.me.lease if self.alive and self.session is not None and not self.lost else 0
        store = self.job.store
        return [lease for lease in self.etcd.granted if lease != in_use and store.refreshes(lease) is not None]

    # -- the election and the leader -------------------------------------------------------------

    def _elect(self, session: Session) -> None:
        assert self.mirror is not None
        kv = self.mirror.items.get(self.keys.leader)
        if kv is not None:
            self.is_candidate = False
            if decode_leader(kv.value).member == session.me.member and kv.lease == session.me.lease:
                self._serve(session.me)
                return
        self._resign()
        self.is_candidate = self.is_candidate or (kv is None and not self.leave_requested)

    def _serve(self, me: SessionIdentity) -> None:
        if self.leading is not None and self._closing_as == me:
            return
        self.leading = RoundLeader(
            etcd=self.etcd,
            me=me,
            clock=lambda: self.job.now_s,
            random_hex=self.job.random_hex,
            trace=_NO_TRACE,
            settle_until_s=self._quiet_until_s,
            lease_doubt_until=lambda: self.shaken_until_s,
        )
        self._closing_as = me
        self._election.is_leader = True
        store = self.job.store
        self.leader_mirror = LateMirror(store, self.keys.control, store.range(self.keys.control))

    def _resign(self) -> None:
        self.leading = self.leader_mirror = self._closing_as = None
        self.proved = frozenset()
        self._election.is_leader = False

    def _close_election(self) -> None:
        self._resign()
        self.is_candidate = False

    def campaign(self) -> bool:
        """Campaign, after the delay of its slot."""
        if not self.alive or not self.is_candidate or self.session is None:
            return False
        try:
            attempt = Campaign(self.etcd, self.session.me, "", self.job.random_hex)
            now(attempt.run(is_new=self.last_known.state is None and not self._quiet_until_s))
        except Crashed:
            self.kill()
        except TRANSIENT_ERRORS:
            return True
        self.is_candidate = False
        return True

    def evict_the_leader(self) -> bool:
        """Evict the leader: the link to it has ended, and its address refuses."""
        if not self.alive or self.session is None or self.mirror is None:
            return False
        kv = self.mirror.items.get(self.keys.leader)
        leader = None if kv is None else decode_leader(kv.value)
        if kv is None or leader is None or leader.member == self.session.me.member:
            return False
        monitor = LeaderMonitor(etcd=self.etcd, random_hex=self.job.random_hex, trace=_NO_TRACE)
        monitor.update(self.session.me, leader, kv.lease)
        before = set(self.job.view().nodes)
        try:
            now(monitor._evict(self.session.me, leader))
        except Crashed:
            self.kill()
        assert before - self.job.view().nodes.keys() <= {leader.member}, "9: a key of another member vanished too"
        return True

    def close_a_round(self) -> bool:
        """Take one turn of the leader's loop; return whether it acted."""
        if not self.alive or self.leading is None or self.leader_mirror is None:
            return False
        view = parse_view(self.keys, self.leader_mirror.items)
        self.proved &= view.nodes.keys()
        observed = self.leading._observations.update(
            view, self.job.now_s, proved=self.proved, lease_doubt_until_s=self.shaken_until_s
        )
        decision = plan(view, observed, self.job.random_hex())
        if observed.loss_grace.until_s is not None:
            self.job.check_loss_grace(view, in_doubt=self.job.now_s < self.shaken_until_s)
        if isinstance(decision, WriteState):
            self.job.check_write(view, decision.state)
        before = set(self.job.view().nodes)
        try:
            self.wait_until_s = now(self.leading._execute(view, decision))
        except Crashed:
            self.kill()
        evicted = {decision.member} if isinstance(decision, Evict) else set()
        assert before - self.job.view().nodes.keys() <= evicted, "9: a key of another member vanished too"
        return not isinstance(decision, Wait)

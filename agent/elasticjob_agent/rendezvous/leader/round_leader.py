"""The elected node that leads rounds: watch `P/c/`, plan from the view, write one state, wait until the watch shows it.

One watch covers all keys below `P/c/`, so its nodes are never older than its rendezvous state. The leader plans after
each change and at each timer. Changes are coalesced for 5 ms, or for twice as long as the last plan took. A state
counts only when the watch has shown it, never by the answer to its transaction. Another agent may still run the state
before.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable

from elasticjob_agent.rendezvous.leader.links import LeaderLinks
from elasticjob_agent.rendezvous.leader.observations import ObservationClock
from elasticjob_agent.rendezvous.protocol import transactions
from elasticjob_agent.rendezvous.protocol.leader_plan import (
    Decision,
    Evict,
    PushConfig,
    Wait,
    WriteState,
    pending_push,
    plan,
)
from elasticjob_agent.rendezvous.protocol.restart_budget import FailureAgeClock
from elasticjob_agent.rendezvous.protocol.transactions import Push, SessionIdentity
from elasticjob_agent.tracing import Tracer
from elasticjob_api.link_secret import new_link_secret
from elasticjob_api.records import Tombstone, TombstoneReason
from elasticjob_api.rendezvous_state import Cause, Member, RendezvousState, RoundPhase
from elasticjob_api.rendezvous_view import RendezvousView, parse_view
from elasticjob_api.trace_points import LEADER_WROTE
from elasticjob_etcd.errors import StoreReset, Unavailable
from elasticjob_etcd.interface import Etcd
from elasticjob_etcd.mirror import Mirror

COALESCE_S = 0.005
MAX_COALESCE_S = 0.05
_MAX_TOMBSTONES = 64
"""Tombstones deleted with one write: etcd takes at most 128 operations at once."""
_RETRY_S = 0.2

log = logging.getLogger(__name__)


class RoundLeader:
    """Opens and closes rounds for as long as it runs; cancel it when another agent leads."""

    def __init__(
        self,
        *,
        etcd: Etcd,
        me: SessionIdentity,
        clock: Callable[[], float],
        random_hex: Callable[[], str],
        trace: Tracer,
        failure_ages: FailureAgeClock | None = None,
        settle_until_s: float = 0.0,
        lease_doubt_until: Callable[[], float] = lambda: 0.0,
        predecessor: Member | None = None,
    ) -> None:
        """Nothing is written before `settle_until_s`: etcd was wiped, and other agents are still rejoining.

        No unreachable member counts as lost before `lease_doubt_until()`: etcd did not answer. `predecessor` led
        before.
        """
        self._predecessor = predecessor
        self._etcd = etcd
        self._me = me
        self._clock = clock
        self._random_hex = random_hex
        self._trace = trace
        self._lease_doubt_until = lease_doubt_until
        self._observations = ObservationClock(
            failure_ages, settle_until_s=settle_until_s, has_predecessor=predecessor is not None
        )
        self._coalesce_s = COALESCE_S
        self._wake = asyncio.Event()
        self._links = LeaderLinks(me=me, clock=clock, random_hex=random_hex, trace=trace, on_proof=self._wake.set)
        self._logged_unreadable: set[str] = set()

    async def run(self) -> None:
        """Plan and execute until cancelled."""
        try:
            async with Mirror(self._etcd, self._me.keys.control, on_change=self._wake.set) as mirror:
                while True:
                    await self._lead_once(mirror)
        finally:
            await self._links.close()

    async def _lead_once(self, mirror: Mirror) -> None:
        self._wake.clear()
        if mirror.failure is not None:
            raise mirror.failure
        began_s = self._clock()
        view = parse_view(self._me.keys, mirror.items)
        self._log_unreadable(view)
        self._links.update(view, predecessor_crashed=self._predecessor_crashed(view))
        observed = self._observations.update(
            view, self._clock(), proved=self._links.proved, lease_doubt_until_s=self._lease_doubt_until()
        )
        decision = plan(view, observed, self._random_hex())
        self._coalesce_s = coalesce_s(self._clock() - began_s)
        await self._next_change(await self._execute(view, decision))

    def _predecessor_crashed(self, view: RendezvousView) -> bool:
        """Whether a member proved the previous leader to be gone after its link to it had ended."""
        tombstone = None if self._predecessor is None else view.tombstones.get(self._predecessor)
        return tombstone is not None and tombstone.reason is TombstoneReason.REFUSED

    async def _execute(self, view: RendezvousView, decision: Decision) -> float | None:
        """Execute the decision; return the time of the next plan at the latest."""
        if isinstance(decision, Wait):
            log.debug("leader waits: %s", decision.reason)
            return decision.until_s
        try:
            if isinstance(decision, Evict):
                await self._evict(view, decision)
            elif isinstance(decision, PushConfig):
                await self._etcd.txn(transactions.push(self._me, view.spec_revision, self._pending_push(decision)))
            else:
                await self._write(view, decision)
        except (Unavailable, StoreReset) as error:
            # Whether the write took place is unknown; the watch will show it. Nothing is decided here.
            log.warning("leader could not write, trying again from what the watch shows: %s", error)
        return self._clock() + _RETRY_S

    async def _write(self, view: RendezvousView, decision: WriteState) -> None:
        state = decision.state
        garbage = self._stale_keys(view, state) if state.phase is RoundPhase.ACTIVE else []
        txn = transactions.write_state(
            self._me,
            observed_revision=view.state_revision,
            spec_revision=view.spec_revision,
            next_state=state,
            garbage=garbage,
            push=self._pending_push(pending_push(view)),
        )
        if state.phase.is_final:
            self._links.close_all()  # its own watch may show the end last: an agent that has exited by then is no loss
        result = await self._etcd.txn(txn)
        if result.succeeded:
            self._trace.point(LEADER_WROTE[state.phase], state.round)
            if state.cause is Cause.NODE_LOST and (view.state is None or view.state.round < state.round):
                self._trace.point("opened for a loss", state.round)
            log.info("%s", state.summary)

    def _stale_keys(self, view: RendezvousView, state: RendezvousState) -> list[str]:
        spare = () if self._predecessor is None else (self._predecessor,)
        return _old_rounds(self._me, view, state.round) + _old_tombstones(self._me, view, {*state.members, *spare})

    def _pending_push(self, pending: PushConfig) -> Push:
        return Push(pending.runtime_config, new_link_secret(self._random_hex) if pending.link_key else None)

    async def _evict(self, view: RendezvousView, decision: Evict) -> None:
        member = decision.member
        if member not in view.tombstones:
            txn = transactions.evict(self._me, view.state_revision, member, Tombstone(decision.reason))
            result = await self._etcd.txn(txn)
            if not result.succeeded and not result.reads[0]:
                return  # the state changed, or another agent leads: the member may be ready now
        log.warning("evicting incarnation %s of slot %d: %s", member.incarnation, member.slot, decision.reason.value)
        await self._etcd.lease_revoke(decision.lease)

    async def _next_change(self, until_s: float | None) -> None:
        timeout_s = None if until_s is None else max(0.0, until_s - self._clock())
        with contextlib.suppress(TimeoutError):
            # Not wait_for: on Python 3.11 it ignores a cancellation at the same moment as the change.
            async with asyncio.timeout(timeout_s):
                await self._wake.wait()
            await asyncio.sleep(self._coalesce_s)

    def _log_unreadable(self, view: RendezvousView) -> None:
        for line in view.unreadable:
            if line not in self._logged_unreadable:
                self._logged_unreadable.add(line)
                log.warning("ignored a record: %s", line)


def coalesce_s(planned_s: float) -> float:
    """Return how long changes are coalesced before the next plan: a thousand joiners must not cost a plan each."""
    return min(max(COALESCE_S, 2 * planned_s), MAX_COALESCE_S)


def _old_rounds(me: SessionIdentity, view: RendezvousView, current_round: int) -> list[str]:
    """Return the prefixes of rounds before the last one: no decision needs their records."""
    rounds = {failure.round for failure in view.failures} | {round_ for round_, _ in view.completions}
    old = sorted(round_ for round_ in rounds if round_ < current_round - 1)
    return [prefix for r in old for prefix in (me.keys.failures(r), me.keys.completions(r))]


def _old_tombstones(me: SessionIdentity, view: RendezvousView, needed: set[Member]) -> list[str]:
    """Return the keys of the oldest tombstones that no agent needs: of members without a key that the last round lacks.

    If such an agent returns, it finds that the state has changed. It joins again, or finds that another pod owns its
    slot.
    """
    before = () if view.membership is None else view.membership.members
    over = view.tombstones.keys() - view.nodes.keys() - needed - set(before)
    return [me.keys.tombstone(member.slot, member.incarnation) for member in sorted(over)[:_MAX_TOMBSTONES]]

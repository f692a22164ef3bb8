"""The steps of one node, executed: each is one transaction with compares, or one action on the workers.

The answer to a refused transaction shows which compare failed. If the state changed, the node decides nothing before
the watch shows the new one. If the own key is gone, the session has ended.
"""

import itertools
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from enum import Enum

from elasticjob_agent.rendezvous.leader.election import Election
from elasticjob_agent.rendezvous.member.session import Session
from elasticjob_agent.rendezvous.protocol import transactions
from elasticjob_agent.rendezvous.protocol.interfaces import KeepPort, WorkersPort
from elasticjob_agent.rendezvous.protocol.keep.state_words import round_after_failed_restore
from elasticjob_agent.rendezvous.protocol.member_plan import Step, StepKind
from elasticjob_agent.rendezvous.protocol.ranks import assignment
from elasticjob_agent.rendezvous.protocol.transactions import VersionedNode
from elasticjob_agent.tracing import Tracer
from elasticjob_api import records
from elasticjob_api.errors import RecordError
from elasticjob_api.holdings import HoldingsRecord
from elasticjob_api.records import NodeRecord
from elasticjob_api.rendezvous_state import Cause, RendezvousState, next_round
from elasticjob_api.runtime_config import failure_stop_grace_s
from elasticjob_etcd.interface import Etcd, Txn, TxnResult

log = logging.getLogger(__name__)

_MAX_FAILURES = 24
"""The most failures in one write: each has up to 40 KB, and etcd takes 1.5 MB and 128 operations.

The others follow as late failures.
"""


class StepResult(Enum):
    """The result of a step."""

    DONE = "done"
    STATE_CHANGED = "the rendezvous state changed"
    STATE_UNREADABLE = "the rendezvous state has no assignment that can be read"
    KEY_LOST = "the own key is gone"
    RECORD_CHANGED = "an earlier write that was given up took place after all"


@dataclass(frozen=True, slots=True)
class StepContext:
    """The state that a step was planned from."""

    session: Session
    state_or_none: RendezvousState | None
    revision: int

    @property
    def state(self) -> RendezvousState:
        """The rendezvous state; a step that needs one is never planned without."""
        if self.state_or_none is None:
            raise AssertionError("a step that needs a rendezvous state was planned without one")
        return self.state_or_none


class StepExecutor:
    """Executes one step at a time."""

    def __init__(
        self,
        *,
        etcd: Etcd,
        workers: WorkersPort,
        random_hex: Callable[[], str],
        trace: Tracer,
        election: Election,
        keep: KeepPort,
    ) -> None:
        self._etcd = etcd
        self._workers = workers
        self._keep = keep
        self._random_hex = random_hex
        self._trace = trace
        self._election = election
        self._handlers: dict[StepKind, Callable[[StepContext, Step], Awaitable[StepResult]]] = {
            StepKind.START: self._start,
            StepKind.STOP: self._stop,
            StepKind.STOP_FAST: self._stop,
            StepKind.REPORT_READY: self._report_ready,
            StepKind.REPORT_DONE: self._report_done,
            StepKind.REPORT_LATE_FAILURES: self._report_late_failures,
            StepKind.REPORT_SEALED: self._report_sealed,
            StepKind.REPORT_LISTED: self._report_listed,
            StepKind.OPEN_FAILED: self._open_failed,
            StepKind.OPEN_RESTORE_FAILED: self._open_restore_failed,
            StepKind.OPEN_LEAVING: self._open_leaving,
            StepKind.REPORT_LEAVING: self._report_leaving,
        }

    async def execute(self, context: StepContext, step: Step) -> StepResult:
        """Execute the step; raise EtcdError if its outcome is unknown."""
        return await self._handlers[step.kind](context, step)

    async def _commit(self, context: StepContext, txn: Txn) -> StepResult:
        result = await self._etcd.txn(txn)
        return StepResult.DONE if result.succeeded else _reason(context, txn, result)

    async def _commit_node(self, context: StepContext, txn: Txn, node: NodeRecord) -> StepResult:
        """Commit a write of the own record; afterwards `session.last` is the record in etcd."""
        session, result = context.session, await self._etcd.txn(txn)
        if result.succeeded:
            session.last = VersionedNode(node, result.revision)
            return StepResult.DONE
        reason = _reason(context, txn, result)
        if reason is StepResult.RECORD_CHANGED:
            (own,) = result.reads[1]
            session.last = VersionedNode(records.decode(NodeRecord, own.value), own.mod_revision)
        return reason

    # -- workers ---------------------------------------------------------------------------------

    async def _start(self, context: StepContext, step: Step) -> StepResult:
        state, session = context.state, context.session
        try:
            place = assignment(state, step.group_rank)
        except RecordError as error:  # no content of etcd may end an agent
            log.warning("ignored the state of round %d: %s", state.round, error)
            return StepResult.STATE_UNREADABLE
        # Recorded before the first process exists: (round, nonce) is started only once, whatever happens here.
        session.started, session.failures_reported, session.opened_round = (state.round, state.nonce), 0, ("", 0)
        if state.restore:
            self._trace.point("restored", state.round)
        self._trace.point("starting", state.round)
        await self._workers.start(place, session.runtime_config)
        self._keep.report_start()
        self._trace.point("started", state.round)
        return StepResult.DONE

    async def _stop(self, context: StepContext, step: Step) -> StepResult:
        self._trace.point("stopping", context.state_or_none.round if context.state_or_none else 0)
        state = context.state_or_none
        log.info("stopping the workers: %s", "the job was deleted" if state is None else state.summary)
        self.stop(context.session, fast=step.kind is StepKind.STOP_FAST)
        return StepResult.DONE

    def stop(self, session: Session, *, fast: bool) -> None:
        """Begin to stop the workers, with the short grace or the user's."""
        config = session.runtime_config
        grace_s = failure_stop_grace_s(config) if fast else config.graceful_shutdown_s
        self._workers.stop(grace_s=grace_s, signal_name=config.stop_signal)

    # -- reports ---------------------------------------------------------------------------------

    async def _report_ready(self, context: StepContext, _step: Step) -> StepResult:
        state, session = context.state, context.session
        self._trace.point("stopped", state.round)
        # A new port after each round. A port that no round used remains: a leader may have published it.
        port = session.node.master_port if session.started is None else self._workers.renew_master_port()
        node = replace(session.node, ready=state.round, master_port=port)
        holdings = await self._sealed_holdings(context)
        txn = transactions.ready(session.me, session.last, node, holdings=holdings)
        result = await self._commit_node(context, txn, node)
        if result is StepResult.DONE:
            session.note_reported(holdings)
            self._trace.point("ready", state.round)
        return result

    async def _report_listed(self, context: StepContext, _step: Step) -> StepResult:
        session, holdings = context.session, self._keep.holdings
        if holdings is not None and session.sealed == context.state.nonce:
            holdings = replace(holdings, sealed=session.sealed)  # as `ready` has reported
        result = await self._commit(context, transactions.put_holdings(session.me, holdings))
        if result is StepResult.DONE:
            session.note_reported(holdings)
        return result

    async def _report_sealed(self, context: StepContext, _step: Step) -> StepResult:
        # Tried once: without the record, other nodes wait for a part of their time, and then go by the last one.
        context.session.sealed = context.state.nonce
        return await self._commit(
            context, transactions.put_holdings(context.session.me, await self._sealed_holdings(context))
        )

    async def _sealed_holdings(self, context: StepContext) -> HoldingsRecord | None:
        """Return the holdings after all that was published is taken; where steps are persisted, with the state."""
        await self._keep.seal()
        holdings = self._keep.holdings
        if holdings is None or not self._keep.persists:
            return holdings
        context.session.sealed = context.state.nonce
        return replace(holdings, sealed=context.state.nonce)

    async def _report_done(self, context: StepContext, _step: Step) -> StepResult:
        state, session = context.state, context.session
        result = await self._commit(context, transactions.done(session.me, context.revision, state.round))
        if result is StepResult.DONE:
            session.done_round = state.round
            self._trace.point("done", state.round)
        return result

    async def _report_late_failures(self, context: StepContext, _step: Step) -> StepResult:
        session, begin = context.session, context.session.failures_reported
        failures = itertools.islice(self._workers.failures.items(), begin, begin + _MAX_FAILURES)
        unreported = {key: replace(failure, late=True) for key, failure in failures}
        result = await self._commit(context, transactions.late_failures(session.me, unreported))
        if result is StepResult.DONE:
            session.failures_reported += len(unreported)
        return result

    async def _report_leaving(self, context: StepContext, _step: Step) -> StepResult:
        session = context.session
        node = replace(session.node, leaving=True)
        txn = transactions.leaving(session.me, session.last, node, is_leader=self._election.is_leader)
        return await self._commit_node(context, txn, node)

    # -- rounds that this node opens -------------------------------------------------------------

    async def _open_failed(self, context: StepContext, _step: Step) -> StepResult:
        state, session = context.state, context.session
        failures = dict(itertools.islice(self._workers.failures.items(), _MAX_FAILURES))
        first = next(iter(failures.values()))
        self._trace.record("failed", state.round, first.time_ns)
        self._trace.point("detected", state.round)
        # If the answer is lost, the nonce in the watch shows that this node opened the round. A second try has the same
        # nonce: the first may have taken place, and then these failures are not late.
        if not session.opened_round[0]:
            session.opened_round = self._random_hex(), len(failures)
        nonce, _ = session.opened_round
        opened = next_round(state, nonce, Cause.WORKER_FAILED, first.message)
        result = await self._commit(context, transactions.open_round(session.me, context.revision, opened, failures))
        if result is StepResult.DONE:
            session.failures_reported = len(failures)
            self._trace.point("proposed", state.round + 1)
        return result

    async def _open_restore_failed(self, context: StepContext, _step: Step) -> StepResult:
        state, session = context.state, context.session
        message = f"{session.node.pod} could not restore step {state.restore}"
        opened = round_after_failed_restore(state, self._random_hex(), message)
        return await self._commit(context, transactions.open_round(session.me, context.revision, opened, {}))

    async def _open_leaving(self, context: StepContext, _step: Step) -> StepResult:
        state, session = context.state, context.session
        node = replace(session.node, leaving=True)
        opened = next_round(state, self._random_hex(), Cause.NODE_LEFT, f"{node.pod} leaves")
        is_leader = self._election.is_leader
        txn = transactions.open_leaving(session.me, context.revision, opened, session.last, node, is_leader=is_leader)
        return await self._commit_node(context, txn, node)


def _reason(context: StepContext, txn: Txn, rejected: TxnResult) -> StepResult:
    """Return which compare failed; the state first, because the node waits for it and finds the rest then."""
    me = context.session.me
    now = {kv.key: kv for read in rejected.reads for kv in read}
    state, own = now.get(me.keys.rendezvous_state), now.get(me.node_key)
    revision = state.mod_revision if state is not None else 0
    if revision != context.revision and any(compare.key == me.keys.rendezvous_state for compare in txn.compares):
        return StepResult.STATE_CHANGED
    moved = own is not None and own.lease == me.lease and own.mod_revision != context.session.last.revision
    return StepResult.RECORD_CHANGED if moved else StepResult.KEY_LOST

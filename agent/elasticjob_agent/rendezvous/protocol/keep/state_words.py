"""The words of Keep in two states: the active one that the leader writes, and the one after a failed restore.

The first active state of a job that keeps steps draws the run: its own nonce. A spec without `keep_copies` has no word
of Keep in its states.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from elasticjob_agent.rendezvous.protocol.keep.history import strike_step
from elasticjob_agent.rendezvous.protocol.keep.restore_choice import RestoreDecision, choose_restore
from elasticjob_agent.rendezvous.protocol.keep.shift import Place, choose_shift
from elasticjob_agent.rendezvous.protocol.keep.sources import assign_sources, persisted_sources, persisted_to_restore
from elasticjob_api.errors import RecordError
from elasticjob_api.holdings import HoldingsRecord
from elasticjob_api.rendezvous_state import Cause, Member, RendezvousState, next_round
from elasticjob_api.rendezvous_view import NodeEntry, RendezvousView


def with_restore(state: RendezvousState, view: RendezvousView, nodes: Sequence[NodeEntry]) -> RendezvousState:
    """Return the active state of these nodes with the step that they restore, its sources, history and shift."""
    copies = None if view.spec is None else view.spec.keep_copies
    if copies is None:
        return replace(state, run="", history="", older="", shift="")
    records = live_holdings(view)
    decision = _decide(state, view, records, copies)
    places = [Place(node.record.host, view.topology(node)) for node in nodes]
    shift = choose_shift(places, copies, state.replica_shift())
    return replace(
        state,
        run=state.run or state.nonce,
        history=str(decision.history),
        older=str(decision.older),
        restore="" if decision.step is None else str(decision.step),
        sources=_sources(decision, [node.member for node in nodes], records),
        shift=str(shift or ""),
    )


def awaited_lists(
    closed: RendezvousState, holdings: Mapping[Member, HoldingsRecord], ready: Mapping[Member, int]
) -> list[Member]:
    """Return the members of a round that has not closed yet whose list of the shared directory it has to wait for.

    A node that has not listed the directory may miss a step that is there. So nothing may begin below it. A step that
    is whole in memory is enough if any node has listed the directory: then no newer one is there. But a member without
    a keeper could not restore it, and would give it up. `holdings` are those of all live nodes, and `ready` the rounds
    for which they were ready.
    """
    # A node that is not ready yet may not know that rounds went on without it.
    late = {member for member in holdings if closed.cause is not Cause.FIRST and ready.get(member) != closed.round}
    waiting = [member for member in closed.members if _awaits_list(holdings.get(member), is_late=member in late)]
    is_known = any(_knows_directory(record) for member, record in holdings.items() if member not in late)
    if is_known and closed.restore and persisted_to_restore(closed) is None:
        return [member for member in waiting if not holdings[member].port]
    return waiting


def _awaits_list(record: HoldingsRecord | None, *, is_late: bool) -> bool:
    return record is not None and record.has_listed is not None and (is_late or not record.has_listed)


def _knows_directory(record: HoldingsRecord) -> bool:
    # An earlier agent writes no such word. It names a step only if it has listed the directory.
    return record.persisted is not None if record.has_listed is None else record.has_listed


def live_holdings(view: RendezvousView) -> Mapping[Member, HoldingsRecord]:
    """Return the holdings of the newest session of each live agent, also of one that leaves.

    An agent that has joined again has the same volume. Its older session may name parts that are dropped since.
    """
    return {member: view.holdings[member] for member in view.agents().values() if member in view.holdings}


def _decide(
    state: RendezvousState, view: RendezvousView, records: Mapping[Member, HoldingsRecord], copies: int
) -> RestoreDecision:
    try:
        history = state.kept_history()
    except RecordError:
        # Nothing is restored: an empty history would allow steps of other runs.
        return RestoreDecision()
    hosts = {member: view.nodes[member].record.host for member in view.agents().values()}
    return choose_restore(history, records, hosts, copies=copies, older=state.older_history())


def _sources(decision: RestoreDecision, members: Sequence[Member], records: Mapping[Member, HoldingsRecord]) -> str:
    if decision.step is None:
        return ""
    if decision.run:
        return persisted_sources(decision.run)
    return assign_sources(decision.step, members, {member: record.steps for member, record in records.items()})


def round_after_failed_restore(state: RendezvousState, nonce: str, message: str) -> RendezvousState:
    """Return the state that opens the next round; no later round restores the step of this one.

    It is charged to no worker. Each failure removes a step for good, so the failures end.
    """
    opened = next_round(state, nonce, Cause.RESTORE_FAILED, message)
    try:
        step, history = state.step_to_restore(), opened.kept_history()
    except RecordError:
        return opened
    if step is None:
        return opened
    older = strike_step(opened.older_history(), step)
    return replace(opened, history=str(strike_step(history, step)), older=str(older))

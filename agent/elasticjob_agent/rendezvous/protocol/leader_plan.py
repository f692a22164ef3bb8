"""The leader's next decision, from the state alone: (view, observations, a new nonce) → decision.

The leader plans again after each change and at each `until_s`; the plan does not depend on the event that caused it.
The plan is idempotent: for the same state it asks for nothing more. Only the leader writes `active` and the final
states. Opening a round never charges a failure.
"""

from dataclasses import dataclass, replace

from elasticjob_agent.rendezvous.protocol import membership, ranks, restart_backoff, round_triggers, verdict
from elasticjob_agent.rendezvous.protocol.keep.state_words import awaited_lists, live_holdings, with_restore
from elasticjob_agent.rendezvous.protocol.mass_loss_grace import LossGrace
from elasticjob_agent.rendezvous.protocol.membership import CloseDecision, Observations
from elasticjob_agent.rendezvous.protocol.restart_budget import RestartCounts
from elasticjob_api.records import SpecRecord, TombstoneReason
from elasticjob_api.rendezvous_state import Cause, Member, RendezvousState, RoundPhase, encode_layout, next_round
from elasticjob_api.rendezvous_view import NodeEntry, RendezvousView
from elasticjob_api.runtime_config import RuntimeConfig, failure_stop_grace_s, runtime_config_of

STOP_MARGIN_S = 10.0
"""Seconds after the workers' grace until a node that is not ready is evicted as wedged."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do before the next change, or before `until_s` (monotonic)."""

    until_s: float | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class WriteState:
    """Compare and swap this state; an active one also writes `P/c/members` and deletes records of old rounds."""

    state: RendezvousState


@dataclass(frozen=True, slots=True)
class Evict:
    """Write the tombstone if absent, then revoke the lease: all keys of the incarnation vanish in one revision."""

    member: Member
    lease: int
    reason: TombstoneReason


@dataclass(frozen=True, slots=True)
class PushConfig:
    """Write data that all agents need besides the state; a write of the state includes it, too."""

    runtime_config: RuntimeConfig | None = None
    """The runtime config to write; None if the key is up to date."""
    link_key: bool = False
    """Whether a key for the agents' links must be generated, because there is none yet."""


Decision = Wait | WriteState | Evict | PushConfig


def plan(view: RendezvousView, observed: Observations, nonce: str) -> Decision:
    """Return the leader's next decision."""
    spec, state = view.spec, view.state
    if spec is None:
        return Wait(reason="no spec yet")
    if idle := _idle_state(spec, state):
        return Wait(reason=idle)
    if observed.now_s < observed.settle_until_s:
        return Wait(observed.settle_until_s, "etcd was wiped: agents get time to rejoin")
    decision = _plan_rounds(view, spec, state, observed, nonce)
    if isinstance(decision, Wait) and state is not None and (pending := pending_push(view)) != PushConfig():
        return pending
    return decision


def pending_push(view: RendezvousView) -> PushConfig:
    """Return the data that is missing or out of date in etcd. An unreadable link key is left as it is.

    The spec of a job that is being deleted has no slots. Older operators leave out how its workers are stopped, too.
    """
    emptied = view.spec is not None and not view.spec.slots and view.expected_revision > 0
    wanted = None if view.spec is None or emptied else runtime_config_of(view.spec)
    return PushConfig(None if wanted == view.runtime_config else wanted, link_key=not view.link_secret_revision)


def _plan_rounds(
    view: RendezvousView, spec: SpecRecord, state: RendezvousState | None, observed: Observations, nonce: str
) -> Decision:
    if (eviction := _next_eviction(view, observed)) is not None:
        return eviction
    if state is None:
        return _plan_first(view, spec, observed, nonce)
    plan_state = _plan_active if state.phase is RoundPhase.ACTIVE else _plan_forming
    return plan_state(view, spec, state, observed, nonce)


def _idle_state(spec: SpecRecord, state: RendezvousState | None) -> str | None:
    """Return why the leader writes nothing at all; None if it may write."""
    if state is not None and state.phase.is_final:
        return "the job has ended"
    if spec.suspended or (state is not None and state.phase is RoundPhase.SUSPENDED):
        return "suspended"
    return None


def _plan_first(view: RendezvousView, spec: SpecRecord, observed: Observations, nonce: str) -> Decision:
    if view.state_revision:
        return Wait(reason="the rendezvous state cannot be read")
    return Wait(reason="the job was deleted") if observed.state_was_observed else WriteState(_first_state(spec, nonce))


def _first_state(spec: SpecRecord, nonce: str) -> RendezvousState:
    round_ = max(1, spec.first_round)
    restarts, restart_id = spec.first_restarts, spec.restart_id
    return RendezvousState(
        phase=RoundPhase.FORMING, round=round_, nonce=nonce, restarts=restarts, restart_id=restart_id
    )


def _next_eviction(view: RendezvousView, observed: Observations) -> Evict | None:
    """Return the eviction of a live key that has a tombstone, or whose process is proved to be gone."""
    for member in sorted(view.nodes.keys() & (view.tombstones.keys() | observed.crashed)):
        reason = view.tombstones[member].reason if member in view.tombstones else TombstoneReason.REFUSED
        if reason is not TombstoneReason.LEFT or member in observed.crashed:
            # The author of a tombstone may have ended before it revoked the lease.
            return Evict(member, view.nodes[member].record.lease, reason)
    return None


def _plan_active(
    view: RendezvousView, spec: SpecRecord, state: RendezvousState, observed: Observations, nonce: str
) -> Decision:
    if round_triggers.all_completed(view, spec, state):
        return WriteState(replace(state, phase=RoundPhase.SUCCEEDED, nonce=nonce, cause=Cause.SUCCEEDED, message=""))
    reason = round_triggers.find_trigger(view, spec, state, grace_members=observed.loss_grace.members)
    if reason is not None:
        opened = next_round(state, nonce, reason.cause, reason.detail, restart_id=spec.restart_id)
        return WriteState(replace(opened, loss_grace_spent=observed.loss_grace.is_over))
    if observed.loss_grace.until_s is not None:
        return _in_loss_grace(observed.loss_grace)
    return _plan_joiners(view, spec, state, observed, nonce)


def _in_loss_grace(loss_grace: LossGrace) -> Wait:
    return Wait(
        loss_grace.until_s,
        f"loss grace: {len(loss_grace.members)} members are unreachable, and nothing proves them gone",
    )


def _plan_joiners(
    view: RendezvousView, spec: SpecRecord, state: RendezvousState, observed: Observations, nonce: str
) -> Decision:
    new = round_triggers.joiners(view, spec, state)
    if not new:
        return Wait(reason="running")
    since = observed.now_s if observed.joiner_since_s is None else observed.joiner_since_s
    until = since + spec.scale_up_delay_s
    if round_triggers.joiners_fill(view, spec, state) or observed.now_s >= until:
        detail = ", ".join(node.record.pod for node in new) + " joined"
        return WriteState(next_round(state, nonce, Cause.NODE_JOINED, detail, restart_id=spec.restart_id))
    return Wait(until, "waiting for more joiners")


def _plan_forming(
    view: RendezvousView, spec: SpecRecord, state: RendezvousState, observed: Observations, nonce: str
) -> Decision:
    if late := membership.not_ready(view, state.round):
        return _await_barrier(spec, state, observed, late)
    if observed.loss_grace.until_s is not None:
        return _in_loss_grace(observed.loss_grace)
    return _plan_closing(view, spec, state, observed, nonce)


def _plan_closing(
    view: RendezvousView, spec: SpecRecord, state: RendezvousState, observed: Observations, nonce: str
) -> Decision:
    """Decide on a round whose members have all stopped: the verdict first, then the membership."""
    judged = _with_verdict(view, spec, state, observed, nonce)
    if judged.phase.is_final:
        return WriteState(judged)
    close = restart_backoff.delay_round(spec, judged, forming_since_s=observed.forming_since_s, now_s=observed.now_s)
    close = close or membership.decide(view, spec, state.round, observed)
    if close.nodes is not None:
        closed = with_restore(_active_state(spec, judged, close.nodes, nonce), view, close.nodes)
        if not (awaited := _awaited_lists(closed, view)):
            return WriteState(closed)
        slots = [member.slot for member in awaited]
        close = CloseDecision(None, reason=f"slots {slots} have not listed keep.persistTo")
    if not state.has_verdict and view.membership is not None:
        return WriteState(judged)
    if spec.operator is None and close.until_s is not None and observed.now_s >= close.until_s:
        return WriteState(_join_timeout(view, spec, judged, nonce))
    return Wait(close.until_s, close.reason)


def _awaited_lists(closed: RendezvousState, view: RendezvousView) -> list[Member]:
    if not closed.run:  # most jobs keep no steps, and this looks at all nodes
        return []
    ready = {member: node.record.ready for member, node in view.nodes.items()}
    return awaited_lists(closed, live_holdings(view), ready)


def _await_barrier(spec: SpecRecord, state: RendezvousState, observed: Observations, late: list[NodeEntry]) -> Decision:
    deadlines = [(observed.forming_since_s + _grace_s(spec, state, node) + STOP_MARGIN_S, node) for node in late]
    until, first = min(deadlines, key=lambda deadline: deadline[0])
    if observed.now_s < until:
        names = ", ".join(node.record.pod for node in late[:3])
        return Wait(until, f"{names} not ready" + (f" (and {len(late) - 3} more)" if len(late) > 3 else ""))  # noqa: PLR2004 -- three names are enough for a line
    return Evict(first.member, first.record.lease, TombstoneReason.WEDGED)


def _grace_s(spec: SpecRecord, state: RendezvousState, node: NodeEntry) -> float:
    """Return the seconds that this node's workers get to stop; a leaving node always has the user's grace."""
    short = state.is_failure_stop and not node.record.leaving
    return failure_stop_grace_s(spec) if short else spec.graceful_shutdown_s


def _with_verdict(
    view: RendezvousView, spec: SpecRecord, state: RendezvousState, observed: Observations, nonce: str
) -> RendezvousState:
    """Return the state with the verdict on the last membership; unchanged if it has one."""
    if state.has_verdict or view.membership is None:
        return state
    result = verdict.decide_verdict(view, spec, _restart_counts(state, observed))
    judged = replace(
        state,
        nonce=nonce,
        has_verdict=True,
        loss_grace_spent=state.loss_grace_spent or observed.loss_grace.is_over,
        restarts=state.restarts + result.restarts,
        node_losses=state.node_losses + result.node_losses,
        root_cause=str(result.root_cause.key) if result.root_cause else state.root_cause,
        message=result.message if result.message and state.cause is Cause.WORKER_FAILED else state.message,
        startup_failures=result.startup_failures,
        port_retries=result.port_retries,
        charged_failures=result.charged_failures,
    )
    if result.failed is None:
        return judged
    return replace(judged, phase=RoundPhase.FAILED, cause=result.failed, message=result.message)


def _restart_counts(state: RendezvousState, observed: Observations) -> RestartCounts:
    return RestartCounts(
        round=state.round,
        restarts=state.restarts,
        startup_failures=state.startup_failures,
        port_retries=state.port_retries,
        charged_failures=state.charged_failures,
        charged_ages_s=observed.charged_ages_s,
    )


def _active_state(
    spec: SpecRecord, state: RendezvousState, nodes: tuple[NodeEntry, ...], nonce: str
) -> RendezvousState:
    nprocs, roles = encode_layout((node.record.nproc, node.record.role) for node in nodes)
    return replace(
        state,
        phase=RoundPhase.ACTIVE,
        nonce=nonce,
        has_verdict=False,
        loss_grace_spent=False,
        restart_id=spec.restart_id,
        master=ranks.master_of(nodes[0]),
        nprocs=nprocs,
        roles=roles,
        members=tuple(node.member for node in nodes),
    )


def _join_timeout(view: RendezvousView, spec: SpecRecord, state: RendezvousState, nonce: str) -> RendezvousState:
    missing = membership.describe_missing(view, spec)
    detail = f"fewer than {spec.min} nodes within {spec.join_timeout_s:g} s; missing: {missing}"
    return replace(state, phase=RoundPhase.FAILED, nonce=nonce, cause=Cause.JOIN_TIMEOUT, message=detail)

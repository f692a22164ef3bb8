"""PURE: what the closer does next, from the state alone: (view, what it has seen, a fresh nonce) → decision.

It is asked again after every change of anything and at every `until_s`; it never looks at the event that woke
it. Between two answers for the same state nothing is left to do: plan is idempotent. Only the closer writes
`active` and the final states; an opener never charges.
"""

from dataclasses import dataclass, replace

from elasticjob_agent.rendezvous.protocol import membership, ranks, restart_backoff, round_triggers, verdict
from elasticjob_agent.rendezvous.protocol.mass_loss_grace import Hold
from elasticjob_agent.rendezvous.protocol.membership import Seen
from elasticjob_agent.rendezvous.protocol.restart_budget import Tally
from elasticjob_agent.rendezvous.protocol.view import LiveNode, View
from elasticjob_api.records import GoneReason, Slots
from elasticjob_api.rendezvous_state import Cause, Member, State, World
from elasticjob_api.runtime_config import Terms, terms_of

STOP_MARGIN_S = 10.0
"""Beyond the grace of the workers, until a node that is not ready counts as wedged."""

SHORT_GRACE = {Cause.WORKER_FAILED, Cause.NODE_LOST}
"""After these the other workers hang in a collective: the short grace, not the user's."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do before the next change, or `until_s` (monotonic)."""

    until_s: float | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class WriteWorld:
    """Compare-and-swap this world; with members also `P/c/members`, and old rounds' records go."""

    world: World


@dataclass(frozen=True, slots=True)
class Evict:
    """Write `gone` if absent, then revoke the lease: every key of that incarnation goes in one revision."""

    member: Member
    lease: int
    reason: GoneReason


@dataclass(frozen=True, slots=True)
class Tell:
    """Push to all agents what they must know beside the world; whatever the closer writes first says it too."""

    terms: Terms | None = None
    """Changes of the spec for their workers."""
    link_key: bool = False
    """They have no key for their links yet: one is to be drawn."""


Decision = Wait | WriteWorld | Evict | Tell


def plan(view: View, seen: Seen, nonce: str) -> Decision:
    """The closer's next act."""
    spec, world = view.spec, view.world
    if spec is None:
        return Wait(why="no spec yet")
    if idle := _idle(spec, world):
        return Wait(why=idle)
    if seen.now_s < seen.quiet_until_s:
        return Wait(seen.quiet_until_s, "etcd was wiped: all get time to come back")
    decision = _plan_rounds(view, spec, world, seen, nonce)
    if isinstance(decision, Wait) and world is not None and (owed := untold(view)) != Tell():
        return owed
    return decision


def untold(view: View) -> Tell:
    """What the agents do not know yet; a key that cannot be read is left: it is not for a closer to change.

    A spec that an operator has emptied, because the job is deleted, has no terms for stopping its workers.
    """
    emptied = view.spec is not None and view.spec.operator is None and view.expected_revision > 0
    wanted = None if view.spec is None or emptied else terms_of(view.spec)
    return Tell(None if wanted == view.terms else wanted, link_key=not view.link_key_revision)


def _plan_rounds(view: View, spec: Slots, world: World | None, seen: Seen, nonce: str) -> Decision:
    if (condemned := _condemned(view, seen)) is not None:
        return condemned
    if world is None:
        return _plan_first(view, spec, seen, nonce)
    plan_state = _plan_active if world.state is State.ACTIVE else _plan_forming
    return plan_state(view, spec, world, seen, nonce)


def _idle(spec: Slots, world: World | None) -> str | None:
    """Why a closer writes nothing at all."""
    if world is not None and world.state.final:
        return "the job has ended"
    if spec.suspended or (world is not None and world.state is State.SUSPENDED):
        return "suspended"
    return None


def _plan_first(view: View, spec: Slots, seen: Seen, nonce: str) -> Decision:
    if view.world_revision:
        return Wait(why="the world cannot be read")
    return Wait(why="the job was deleted") if seen.world_was_seen else WriteWorld(_first(spec, nonce))


def _first(spec: Slots, nonce: str) -> World:
    round_ = max(1, spec.first_round)
    restarts, restart_id = spec.first_restarts, spec.restart_id
    return World(state=State.FORMING, round=round_, nonce=nonce, restarts=restarts, restart_id=restart_id)


def _condemned(view: View, seen: Seen) -> Evict | None:
    """A live key with proof against it: its lease goes first, whoever wrote the proof may be dead."""
    for member in sorted(view.nodes.keys() & (view.gone.keys() | seen.proved)):
        reason = view.gone[member].reason if member in view.gone else GoneReason.REFUSED
        if reason is not GoneReason.LEFT or member in seen.proved:
            return Evict(member, view.nodes[member].record.lease, reason)
    return None


def _plan_active(view: View, spec: Slots, world: World, seen: Seen, nonce: str) -> Decision:
    if round_triggers.all_done(view, spec, world):
        return WriteWorld(replace(world, state=State.SUCCEEDED, nonce=nonce, cause=Cause.SUCCEEDED, detail=""))
    reason = round_triggers.reason_to_open(view, spec, world, excused=seen.hold.who)
    if reason is not None:
        opened = forming(world, nonce, reason.cause, reason.detail, restart_id=spec.restart_id)
        return WriteWorld(replace(opened, held=seen.hold.over))
    if seen.hold.until_s is not None:
        return _held(seen.hold)
    return _plan_joiners(view, spec, world, seen, nonce)


def _held(hold: Hold) -> Wait:
    return Wait(hold.until_s, f"held: {len(hold.who)} members fell silent at once, and nothing proves them gone")


def _plan_joiners(view: View, spec: Slots, world: World, seen: Seen, nonce: str) -> Decision:
    new = round_triggers.joiners(view, spec, world)
    if not new:
        return Wait(why="running")
    since = seen.now_s if seen.joiner_since_s is None else seen.joiner_since_s
    until = since + spec.scale_up_delay_s
    if round_triggers.joiners_fill(view, spec, world) or seen.now_s >= until:
        detail = ", ".join(node.record.pod for node in new) + " joined"
        return WriteWorld(forming(world, nonce, Cause.NODE_JOINED, detail, restart_id=spec.restart_id))
    return Wait(until, "joiners wait for more")


def forming(world: World, nonce: str, cause: Cause, detail: str, *, restart_id: str | None = None) -> World:
    """The world that opens the round after `world`; counters unchanged: an opener never charges."""
    return World(
        state=State.FORMING,
        round=world.round + 1,
        nonce=nonce,
        restarts=world.restarts,
        losses=world.losses,
        cause=cause,
        detail=detail,
        root=world.root,
        restart_id=world.restart_id if restart_id is None else restart_id,
        strikes=world.strikes,
        port_retries=world.port_retries,
        charges=world.charges,
    )


def _plan_forming(view: View, spec: Slots, world: World, seen: Seen, nonce: str) -> Decision:
    if late := membership.unready(view, world.round):
        return _await_barrier(spec, world, seen, late)
    if seen.hold.until_s is not None:
        return _held(seen.hold)
    return _plan_closing(view, spec, world, seen, nonce)


def _plan_closing(view: View, spec: Slots, world: World, seen: Seen, nonce: str) -> Decision:
    """Everybody has stopped: the verdict, then the membership."""
    judged = _judged(view, spec, world, seen, nonce)
    if judged.state.final:
        return WriteWorld(judged)
    closing = restart_backoff.hold(spec, judged, forming_since_s=seen.forming_since_s, now_s=seen.now_s)
    closing = closing or membership.decide(view, spec, world.round, seen)
    if closing.nodes is not None:
        return WriteWorld(_active(spec, judged, closing.nodes, nonce))
    if not world.judged and view.membership is not None:
        return WriteWorld(judged)
    if spec.operator is None and closing.until_s is not None and seen.now_s >= closing.until_s:
        return WriteWorld(_nobody_came(view, spec, judged, nonce))
    return Wait(closing.until_s, closing.why)


def _await_barrier(spec: Slots, world: World, seen: Seen, late: list[LiveNode]) -> Decision:
    deadlines = [(seen.forming_since_s + _grace_s(spec, world, node) + STOP_MARGIN_S, node) for node in late]
    until, first = min(deadlines, key=lambda deadline: deadline[0])
    if seen.now_s < until:
        names = ", ".join(node.record.pod for node in late[:3])
        return Wait(until, f"{names} not ready" + (f" (and {len(late) - 3} more)" if len(late) > 3 else ""))  # noqa: PLR2004 -- three names are enough for a line
    return Evict(first.member, first.record.lease, GoneReason.WEDGED)


def _grace_s(spec: Slots, world: World, node: LiveNode) -> float:
    """What this node's workers get to stop; one that leaves has the user's grace, whatever opened the round."""
    short = world.cause in SHORT_GRACE and not node.record.leaving
    return spec.failure_grace_s if short else spec.stop_grace_s


def _judged(view: View, spec: Slots, world: World, seen: Seen, nonce: str) -> World:
    """The world with the verdict on the last membership in it; unchanged if it had its verdict."""
    if world.judged or view.membership is None:
        return world
    result = verdict.judge(view, spec, _tally(world, seen))
    judged = replace(
        world,
        nonce=nonce,
        judged=True,
        held=world.held or seen.hold.over,
        restarts=world.restarts + result.restarts,
        losses=world.losses + result.losses,
        root=result.root.name if result.root else world.root,
        detail=result.detail if result.detail and world.cause is Cause.WORKER_FAILED else world.detail,
        strikes=result.strikes,
        port_retries=result.port_retries,
        charges=result.charges,
    )
    if result.failed is None:
        return judged
    return replace(judged, state=State.FAILED, cause=result.failed, detail=result.detail)


def _tally(world: World, seen: Seen) -> Tally:
    return Tally(
        round=world.round,
        restarts=world.restarts,
        strikes=world.strikes,
        port_retries=world.port_retries,
        charges=world.charges,
        charges_seen_s=seen.charges_seen_s,
    )


def _active(spec: Slots, world: World, nodes: tuple[LiveNode, ...], nonce: str) -> World:
    nprocs, roles = ranks.code_shape(nodes)
    return replace(
        world,
        state=State.ACTIVE,
        nonce=nonce,
        judged=False,
        held=False,
        restart_id=spec.restart_id,
        master=ranks.master_of(nodes[0]),
        nprocs=nprocs,
        roles=roles,
        members=tuple(node.member for node in nodes),
    )


def _nobody_came(view: View, spec: Slots, world: World, nonce: str) -> World:
    missing = membership.who_is_missing(view, spec)
    detail = f"fewer than {spec.min} nodes within {spec.join_timeout_s:g} s; missing: {missing}"
    return replace(world, state=State.FAILED, nonce=nonce, cause=Cause.JOIN_TIMEOUT, detail=detail)

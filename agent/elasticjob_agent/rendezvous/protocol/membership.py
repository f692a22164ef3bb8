"""The barrier of a round, its members, and how long the leader waits for more nodes.

Two kinds of node must write `ready` for this round before the barrier is passed. One is each live node that owns its
slot and is not leaving. The other is each member of the last active round whose key still exists, leaving or not. Then
none of their workers is older than the round. A node that has run nothing since it joined is ready as it is. No timer
passes the barrier; it only evicts.
"""

from dataclasses import dataclass, field

from elasticjob_agent.rendezvous.protocol import ranks
from elasticjob_agent.rendezvous.protocol.mass_loss_grace import LossGrace
from elasticjob_api.records import NO_ROUND, SpecRecord
from elasticjob_api.rendezvous_state import Member
from elasticjob_api.rendezvous_view import NodeEntry, RendezvousView

NEWCOMER_WAIT_S = 1.0
"""Seconds after the newest node key until a round with enough nodes closes."""
LAST_CALL_TIMEOUT_S = 1.0
"""Seconds that an agent without an operator waits for more nodes when there are enough; the user can change it."""
OPERATOR_REACTION_S = 1.0
"""Seconds that the other members wait at most for the operator to reassign the slot of a member that is gone."""


@dataclass(frozen=True, slots=True)
class Observations:
    """The times at which one leader first saw things, by its own monotonic clock; no other host's clock is used."""

    now_s: float
    forming_since_s: float
    """When this leader first saw the round that is forming."""
    newest_key_s: float
    """When it last saw a new node key."""
    enough_since_s: float | None
    """Since when at least `min` nodes are ready."""
    joiner_since_s: float | None = None
    """When it first saw a joiner that a new round would include."""
    charged_ages_s: float = 0.0
    """How long its process has seen the current `charged_failures`."""
    crashed: frozenset[Member] = frozenset()
    """Nodes whose process is gone, as the end of their link proves."""
    loss_grace: LossGrace = field(default_factory=LossGrace)
    """The members that get time to come back."""
    settle_until_s: float = 0.0
    """Until then nothing is opened or closed, because etcd was wiped or restored: all agents get time to rejoin."""
    state_was_observed: bool = False
    """Whether a state was received through this watch. If there is none now, the job was deleted."""


@dataclass(frozen=True, slots=True)
class CloseDecision:
    """The members of the round, in rank order; or None, and the time of the next look."""

    nodes: tuple[NodeEntry, ...] | None
    until_s: float | None = None
    reason: str = ""


def not_ready(view: RendezvousView, round_: int) -> list[NodeEntry]:
    """Return the nodes that the barrier still waits for."""
    previous = set(view.membership.members) if view.membership else set()
    owned = view.current_nodes()
    return [
        node
        for member, node in sorted(view.nodes.items())
        if ((member in owned and not node.record.leaving) or member in previous)
        and not is_ready(node, round_, was_member=member in previous)
    ]


def is_ready(node: NodeEntry, round_: int, *, was_member: bool) -> bool:
    """Whether none of this node's workers is older than `round_`."""
    return node.record.ready == round_ or (node.record.ready == NO_ROUND and not was_member)


def candidates(view: RendezvousView) -> list[NodeEntry]:
    """Return the nodes that can become members."""
    return [n for m, n in view.current_nodes().items() if not n.record.leaving and m not in view.tombstones]


def decide(view: RendezvousView, spec: SpecRecord, round_: int, observed: Observations) -> CloseDecision:
    """Return the members to close the round with, or until when to wait; the barrier has been passed."""
    ready = candidates(view)
    target = spec.target_size
    count = spec.sizes.largest(min(len(ready), target))
    if not count:
        until = None if spec.operator else observed.forming_since_s + spec.join_timeout_s
        return CloseDecision(None, until, f"{len(ready)} of at least {spec.min} nodes are here")
    close = CloseDecision(tuple(ranks.sort_nodes(view, ranks.select(view, ready, count))))
    if count == target:
        return close
    silent_until_s = observed.forming_since_s + OPERATOR_REACTION_S
    if observed.now_s < silent_until_s and (slots := awaiting_operator(view, spec)):
        return CloseDecision(
            None, silent_until_s, f"the operator has not decided yet what to do with slots {sorted(slots)}"
        )
    return close if _may_close_early(view, spec, ready, round_) else _last_call(view, spec, close, observed)


def _may_close_early(view: RendezvousView, spec: SpecRecord, ready: list[NodeEntry], round_: int) -> bool:
    if spec.slots and {node.member.slot for node in ready} >= spec.slots.keys():
        return True
    previous = set(view.membership.members) if view.membership else set()
    survivor = any(node.member in previous for node in ready)
    none_expected = not missing_expected_slots(view) if spec.operator else round_ > 1
    return survivor and none_expected


def missing_expected_slots(view: RendezvousView) -> set[int]:
    """Return the expected slots without a live node; a record older than the last round has had its last call."""
    here = {member.slot for member in view.current_nodes()}
    return {slot for slot in _expected(view) if slot not in here}


def _expected(view: RendezvousView) -> frozenset[int]:
    return frozenset() if view.expected_revision < view.membership_revision else view.expected


def awaiting_operator(view: RendezvousView, spec: SpecRecord) -> set[int]:
    """Return slots whose member left or was lost and that the operator has not reassigned or dropped yet.

    The operator does so within some tenths of a second. If the other members did not wait, they would close a round
    without the expected replacement. The replacement would then cost a round of its own.
    """
    if spec.operator is None or view.membership is None:
        return set()
    here, round_ = {node.member.slot for node in candidates(view)} | _expected(view), view.membership.round
    lost = [m for m in view.membership.members if m.slot not in here and not view.has_completed(round_, m)]
    return {member.slot for member in lost if _still_owns_slot(view, spec, member)}


def _still_owns_slot(view: RendezvousView, spec: SpecRecord, member: Member) -> bool:
    """Whether the slot map still names this member's pod, if its node key shows which pod that was."""
    owner, node = spec.owner(member.slot), view.nodes.get(member)
    return owner is not None and (node is None or node.record.pod == owner.pod)


def _last_call(view: RendezvousView, spec: SpecRecord, close: CloseDecision, observed: Observations) -> CloseDecision:
    enough_since_s = observed.now_s if observed.enough_since_s is None else observed.enough_since_s
    last_call_until_s = enough_since_s + spec.last_call_timeout_s
    if missing := missing_expected_slots(view):
        until, why = last_call_until_s, f"last call for slots {sorted(missing)}"
    elif spec.operator:
        until, why = max(observed.newest_key_s, enough_since_s) + NEWCOMER_WAIT_S, "waiting for newcomers"
    else:  # without an operator nothing names the nodes that may still come
        quiet_until_s = observed.newest_key_s + min(NEWCOMER_WAIT_S, spec.last_call_timeout_s)
        until, why = max(last_call_until_s, quiet_until_s), "last call for more nodes"
    return CloseDecision(None, until, why) if observed.now_s < until else close


def describe_missing(view: RendezvousView, spec: SpecRecord) -> str:
    """Return the missing nodes for a message: pods of slots without a node, or else a count."""
    here = {member.slot for member in view.current_nodes()}
    absent = [owner.pod for slot, owner in sorted(spec.slots.items()) if slot not in here]
    return ", ".join(absent) if absent else f"{spec.min - len(here)} more"

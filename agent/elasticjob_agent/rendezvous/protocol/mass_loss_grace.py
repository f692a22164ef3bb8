"""PURE: many nodes silent at once are more likely a fault of the way to etcd than deaths: wait, once, for proof.

A member of the last round is silent if its node key is gone and no crash was confirmed. Its pod still owns the slot,
and no new incarnation has joined. If silent members are on at least two hosts and are at least 30 % of the round, the
closer waits before it declares them lost. It waits once per membership: the world has `loss_grace_spent` until all are
back. A member that is lost alone or confirmed dead is never waited for. A closer whose own lease was lost, or whose
refresh had no answer for long, infers that etcd stalled. It waits for a single member, too.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from elasticjob_agent.rendezvous.protocol.view import RendezvousView
from elasticjob_api.records import NodeRecord, SpecRecord
from elasticjob_api.rendezvous_state import Member, Membership

MIN_HOSTS = 2
MIN_PERCENT = 30
MIN_GRACE_S = 6.0
"""A hold lasts one lease period, and no less than this."""


def unreachable_members(view: RendezvousView, known: Mapping[Member, NodeRecord]) -> frozenset[Member]:
    """Members gone without a word; `known` are the last records that this closer saw of members."""
    if view.membership is None or view.spec is None:
        return frozenset()
    return frozenset(m for m in view.membership.members if _is_unreachable(view, view.spec, m, known.get(m)))


def _is_unreachable(view: RendezvousView, spec: SpecRecord, member: Member, node: NodeRecord | None) -> bool:
    if member in view.nodes or member in view.tombstones or view.has_completed(member):
        return False
    if spec.operator is not None:
        owner = spec.owner(member.slot)
        if owner is None or (node is not None and owner.pod != node.pod):
            return False
    return not any(_has_rejoined(live.member, live.record, member, node) for live in view.nodes.values())


def _has_rejoined(now: Member, now_node: NodeRecord, member: Member, node: NodeRecord | None) -> bool:
    return now.slot == member.slot if node is None else now_node.pod == node.pod


def is_mass_loss(view: RendezvousView, unreachable: frozenset[Member], known: Mapping[Member, NodeRecord]) -> bool:
    """So many at once are hardly dead; one whose host this closer never knew counts as a host of its own."""
    if view.membership is None:
        return False
    hosts = {known[member].host if member in known else member.token for member in unreachable}
    return len(hosts) >= MIN_HOSTS and len(unreachable) * 100 >= len(view.membership.members) * MIN_PERCENT


@dataclass(slots=True)
class LossGraceTimer:
    """When one closer first saw so many of the present membership silent, and what it knew of them before."""

    known: dict[Member, NodeRecord] = field(default_factory=dict)
    round: int = -1
    since_s: float | None = None
    lease_doubt_until_s: float = 0.0
    """Until then any silence is suspicious: etcd has just left this node without an answer, too."""

    def update(self, view: RendezvousView, now_s: float) -> "LossGrace":
        """Take in a view."""
        if view.membership is None or view.spec is None:
            return LossGrace()
        if view.membership.round != self.round:
            self.round, self.since_s = view.membership.round, None
        self._remember(view, view.membership)
        who = unreachable_members(view, self.known)
        if not who:
            self.since_s = None  # all are back: the next stall of etcd is another one
        shaken = bool(who) and now_s < self.lease_doubt_until_s
        suspicious = shaken or is_mass_loss(view, who, self.known)
        if view.world and view.world.loss_grace_spent:
            return LossGrace()  # after a wipe that may be written back while this closer waits already
        if self.since_s is None and suspicious:
            self.since_s = now_s
        if self.since_s is None:
            return LossGrace()
        until_s = self.since_s + max(view.spec.keep_alive_s, MIN_GRACE_S)
        return LossGrace(who, until_s) if suspicious and now_s < until_s else LossGrace(is_over=now_s >= until_s)

    def _remember(self, view: RendezvousView, membership: Membership) -> None:
        members = set(membership.members)
        here = {member: live.record for member, live in view.nodes.items()}
        self.known = {m: node for m, node in {**self.known, **here}.items() if m in members or m in here}


@dataclass(frozen=True, slots=True)
class LossGrace:
    """The members waited for, and until when (monotonic); `is_over`: this membership was held, and is not again."""

    members: frozenset[Member] = frozenset()
    until_s: float | None = None
    is_over: bool = False

"""The loss grace: if many members are unreachable at once, the leader waits once before it counts them as lost.

A member of the last round is unreachable if its node key is gone and no crash was confirmed. Its pod still owns the
slot, and no new incarnation has joined. If unreachable members are on at least two hosts and are at least 30 % of the
round, the leader waits. A fault between nodes and etcd is then more likely than so many crashes. It waits once per
membership: the state has `loss_grace_spent` until all are back. A leader never waits for a member that is lost alone or
confirmed dead. If its own lease was lost, or a refresh had no answer for long, it infers that etcd stalled. Then it
waits for a single member, too.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from elasticjob_api.records import NodeRecord, SpecRecord
from elasticjob_api.rendezvous_state import Member, Membership
from elasticjob_api.rendezvous_view import RendezvousView

MIN_HOSTS = 2
MIN_PERCENT = 30
MIN_GRACE_S = 6.0
"""The shortest loss grace, in seconds; otherwise it lasts one lease period."""


def unreachable_members(view: RendezvousView, known: Mapping[Member, NodeRecord]) -> frozenset[Member]:
    """Return the unreachable members; `known` are the last node records that this leader read of members."""
    if view.membership is None or view.spec is None:
        return frozenset()
    members, round_ = view.membership.members, view.membership.round
    absent = (m for m in members if m not in view.nodes and m not in view.tombstones)
    return frozenset(
        m for m in absent if not view.has_completed(round_, m) and _is_unreachable(view, view.spec, m, known.get(m))
    )


def _is_unreachable(view: RendezvousView, spec: SpecRecord, member: Member, node: NodeRecord | None) -> bool:
    if spec.operator is not None:
        owner = spec.owner(member.slot)
        if owner is None or (node is not None and owner.pod != node.pod):
            return False
    return not any(_has_rejoined(live.member, live.record, member, node) for live in view.nodes.values())


def _has_rejoined(now: Member, now_node: NodeRecord, member: Member, node: NodeRecord | None) -> bool:
    return now.slot == member.slot if node is None else now_node.pod == node.pod


def is_mass_loss(view: RendezvousView, unreachable: frozenset[Member], known: Mapping[Member, NodeRecord]) -> bool:
    """Whether so many members are unreachable that a fault of etcd or the network is likely.

    A member whose host this leader never read counts as on a host of its own.
    """
    if view.membership is None:
        return False
    hosts = {known[member].host if member in known else member.token for member in unreachable}
    return len(hosts) >= MIN_HOSTS and len(unreachable) * 100 >= len(view.membership.members) * MIN_PERCENT


@dataclass(slots=True)
class LossGraceTimer:
    """Measures the loss grace of one leader: when it first saw so many members of a membership unreachable."""

    known: dict[Member, NodeRecord] = field(default_factory=dict)
    round: int = -1
    since_s: float | None = None
    lease_doubt_until_s: float = 0.0
    """Until then even a single unreachable member starts a grace: etcd has just not answered this node either."""

    def update(self, view: RendezvousView, now_s: float) -> "LossGrace":
        """Take in a view, and return the grace that applies now."""
        if view.membership is None or view.spec is None:
            return LossGrace()
        if view.membership.round != self.round:
            self.round, self.since_s = view.membership.round, None
        self._remember(view, view.membership)
        unreachable = unreachable_members(view, self.known)
        if not unreachable:
            self.since_s = None  # all are back: the next stall of etcd starts another grace
        in_doubt = bool(unreachable) and now_s < self.lease_doubt_until_s
        suspicious = in_doubt or is_mass_loss(view, unreachable, self.known)
        if view.state and view.state.loss_grace_spent:
            return LossGrace()  # after a wipe the flag may be written back while this leader waits
        if self.since_s is None and suspicious:
            self.since_s = now_s
        if self.since_s is None:
            return LossGrace()
        until_s = self.since_s + max(view.spec.keep_alive_s, MIN_GRACE_S)
        if suspicious and now_s < until_s:
            return LossGrace(unreachable, until_s)
        return LossGrace(is_over=now_s >= until_s)

    def _remember(self, view: RendezvousView, membership: Membership) -> None:
        members = set(membership.members)
        here = {member: live.record for member, live in view.nodes.items()}
        self.known = {m: node for m, node in {**self.known, **here}.items() if m in members or m in here}


@dataclass(frozen=True, slots=True)
class LossGrace:
    """The members waited for, and until when (monotonic); `is_over`: this membership had its only grace."""

    members: frozenset[Member] = frozenset()
    until_s: float | None = None
    is_over: bool = False

"""Records that the operator remembers after they go: last reports, the pods of members, nodes lost from a round.

Agents take their keys with them, and two changes may come as one. Nothing here decides anything: it only lets the
status show what was seen. Lost with the process; the status that is written then has to do.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from elasticjob_api.records import NodeReport
from elasticjob_api.rendezvous_state import Member, Membership, RoundPhase
from elasticjob_operator.model.pod import Pod
from elasticjob_operator.model.rendezvous_view import RendezvousView
from elasticjob_operator.policy.status.furthest_progress import furthest
from elasticjob_operator.policy.status.lost_nodes import LostNode, lost_nodes

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PodLocation:
    """Where a member is or was."""

    pod: str
    node_name: str = ""
    exit_code: int | None = None
    """Of the pod's trainer container, if it has ended."""


@dataclass(slots=True)
class LastSeen:
    """Of one job; as large as its last two rounds."""

    reports: dict[Member, NodeReport] = field(default_factory=dict)
    locations: dict[Member, PodLocation] = field(default_factory=dict)
    lost_nodes: tuple[LostNode, ...] = ()
    """Of the last round that lost any."""
    membership: Membership | None = None
    first_reports: NodeReport | None = None
    """The first report of the last round with progress: the speed is measured from there."""

    def record(self, view: RendezvousView, pods: Mapping[str, Pod]) -> None:
        """Take in what is seen now."""
        self._record_losses(view)
        if self.first_reports is None or self.first_reports.round != view.closed_round:
            self.first_reports = furthest(view.reports.values(), view.closed_round)
        members = self.membership.members if self.membership else ()
        kept = {*view.nodes, *members, *(lost.member for lost in self.lost_nodes)}
        self.reports = _retain({**self.reports, **view.reports}, kept)
        named = {member: node.record.pod for member, node in view.nodes.items()}
        self.locations = _retain(
            {**{member: PodLocation(pod) for member, pod in named.items()}, **self.locations}, kept
        )
        self.locations = {
            member: _merge_location(location, pods.get(location.pod)) for member, location in self.locations.items()
        }

    def _record_losses(self, view: RendezvousView) -> None:
        before, after, world = self.membership, view.membership, view.world
        if before and after and after.round > before.round:
            self._record_lost_since(view, before)  # unless the round between was seen, when more was known
        if after and world and world.state is RoundPhase.FORMING and not world.has_verdict:
            self.lost_nodes = lost_nodes(view, after) or self.lost_nodes
        elif after and world and world.state is RoundPhase.FORMING:
            self._record_lost_since(view, after)
        self.membership = after

    def _record_lost_since(self, view: RendezvousView, judged: Membership) -> None:
        if all(lost.round != judged.round for lost in self.lost_nodes):
            self.lost_nodes = lost_nodes(view, judged) or self.lost_nodes


def _retain(items: Mapping[Member, T], members: Iterable[Member]) -> dict[Member, T]:
    return {member: items[member] for member in members if member in items}


def _merge_location(location: PodLocation, pod: Pod | None) -> PodLocation:
    if pod is None:
        return location
    return PodLocation(location.pod, pod.node_name or location.node_name, pod.exit_code)

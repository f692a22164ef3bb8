"""Records that the operator remembers after they are deleted: last reports, the pods of members, lost nodes.

Agents remove their keys when they exit, and two changes may arrive as one. This module decides nothing: it lets the
status show earlier observations. They are lost with the process; then the status that it has written must suffice.
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
    """The location of a present or former member."""

    pod: str
    node_name: str = ""
    exit_code: int | None = None
    """Exit code of the pod's trainer container, if it has ended."""


@dataclass(slots=True)
class LastSeen:
    """The last observations about one job; their size is that of its last two rounds."""

    reports: dict[Member, NodeReport] = field(default_factory=dict)
    locations: dict[Member, PodLocation] = field(default_factory=dict)
    lost_nodes: tuple[LostNode, ...] = ()
    """The lost nodes of the last round that lost any."""
    membership: Membership | None = None
    first_report: NodeReport | None = None
    """The first report of the last round with progress, from which the speed is measured."""

    def record(self, view: RendezvousView, pods: Mapping[str, Pod]) -> None:
        """Record the current view and pods."""
        self._record_losses(view)
        if self.first_report is None or self.first_report.round != view.closed_round:
            self.first_report = furthest(view.reports.values(), view.closed_round)
        members = self.membership.members if self.membership else ()
        relevant = {*view.nodes, *members, *(lost.member for lost in self.lost_nodes)}
        self.reports = _retain({**self.reports, **view.reports}, relevant)
        named = {member: node.record.pod for member, node in view.nodes.items()}
        self.locations = _retain(
            {**{member: PodLocation(pod) for member, pod in named.items()}, **self.locations}, relevant
        )
        self.locations = {
            member: _merge_location(location, pods.get(location.pod)) for member, location in self.locations.items()
        }

    def _record_losses(self, view: RendezvousView) -> None:
        before, after, world = self.membership, view.membership, view.world
        if before and after and after.round > before.round:
            self._record_lost_since(view, before)  # unless it was recorded while that round formed
        if after and world and world.state is RoundPhase.FORMING and not world.has_verdict:
            self.lost_nodes = lost_nodes(view, after) or self.lost_nodes
        elif after and world and world.state is RoundPhase.FORMING:
            self._record_lost_since(view, after)
        self.membership = after

    def _record_lost_since(self, view: RendezvousView, membership: Membership) -> None:
        if all(lost.round != membership.round for lost in self.lost_nodes):
            self.lost_nodes = lost_nodes(view, membership) or self.lost_nodes


def _retain(items: Mapping[Member, T], members: Iterable[Member]) -> dict[Member, T]:
    return {member: items[member] for member in members if member in items}


def _merge_location(location: PodLocation, pod: Pod | None) -> PodLocation:
    if pod is None:
        return location
    return PodLocation(location.pod, pod.node_name or location.node_name, pod.exit_code)

"""Records that the operator remembers after they go: last reports, the pods of members, nodes lost from a round.

Agents take their keys with them, and two changes may come as one. Nothing here decides anything: it only lets the
status show what was seen. Lost with the process; the status that is written then has to do.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from elasticjob_api.records import Report
from elasticjob_api.rendezvous_state import Member, Membership, State
from elasticjob_operator.model.pod import Pod
from elasticjob_operator.model.rendezvous_view import View
from elasticjob_operator.policy.status.furthest_progress import furthest
from elasticjob_operator.policy.status.lost_nodes import LostNode, lost_nodes

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a member is or was."""

    pod: str
    node_name: str = ""
    exit_code: int | None = None
    """Of the pod's trainer container, if it has ended."""


@dataclass(slots=True)
class Memory:
    """Of one job; as large as its last two rounds."""

    reports: dict[Member, Report] = field(default_factory=dict)
    places: dict[Member, Place] = field(default_factory=dict)
    lost: tuple[LostNode, ...] = ()
    """Of the last round that lost any."""
    membership: Membership | None = None
    began: Report | None = None
    """The first report of the last round with progress: the speed is measured from there."""

    def note(self, view: View, pods: Mapping[str, Pod]) -> None:
        """Take in what is seen now."""
        self._note_losses(view)
        if self.began is None or self.began.round != view.closed_round:
            self.began = furthest(view.reports.values(), view.closed_round)
        members = self.membership.members if self.membership else ()
        kept = {*view.nodes, *members, *(lost.member for lost in self.lost)}
        self.reports = _kept({**self.reports, **view.reports}, kept)
        named = {member: node.record.pod for member, node in view.nodes.items()}
        self.places = _kept({**{member: Place(pod) for member, pod in named.items()}, **self.places}, kept)
        self.places = {member: _seen(place, pods.get(place.pod)) for member, place in self.places.items()}

    def _note_losses(self, view: View) -> None:
        before, after, world = self.membership, view.membership, view.world
        if before and after and after.round > before.round:
            self._note_lost_from(view, before)  # unless the round between was seen, when more was known
        if after and world and world.state is State.FORMING and not world.judged:
            self.lost = lost_nodes(view, after) or self.lost
        elif after and world and world.state is State.FORMING:
            self._note_lost_from(view, after)
        self.membership = after

    def _note_lost_from(self, view: View, judged: Membership) -> None:
        if all(lost.round != judged.round for lost in self.lost):
            self.lost = lost_nodes(view, judged) or self.lost


def _kept(items: Mapping[Member, T], members: Iterable[Member]) -> dict[Member, T]:
    return {member: items[member] for member in members if member in items}


def _seen(place: Place, pod: Pod | None) -> Place:
    if pod is None:
        return place
    return Place(place.pod, pod.node_name or place.node_name, pod.exit_code)

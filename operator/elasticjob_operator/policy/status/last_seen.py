"""The update of `LastSeen` from a view: agents remove their keys when they exit, and two changes may arrive at once."""

from collections.abc import Iterable, Mapping
from typing import TypeVar

from elasticjob_api.rendezvous_state import Member, Membership, RoundPhase
from elasticjob_api.rendezvous_view import RendezvousView
from elasticjob_operator.model.last_seen import LastSeen, PodLocation
from elasticjob_operator.model.pod import Pod
from elasticjob_operator.policy.status.highest_progress import samples_at_highest_step
from elasticjob_operator.policy.status.lost_nodes import lost_nodes

T = TypeVar("T")


def record_view(last_seen: LastSeen, view: RendezvousView, pods: Mapping[str, Pod]) -> None:
    """Record the current view and pods."""
    _record_losses(last_seen, view)
    if last_seen.first_samples is None or last_seen.first_samples.round != view.closed_round:
        last_seen.first_samples = samples_at_highest_step(view.samples.values(), view.closed_round)
    members = last_seen.membership.members if last_seen.membership else ()
    relevant = {*view.nodes, *members, *(lost.member for lost in last_seen.lost_nodes)}
    last_seen.reports = _retain({**last_seen.reports, **view.reports}, relevant)
    last_seen.samples = _retain({**last_seen.samples, **view.samples}, relevant)
    current = {member: PodLocation(node.record.pod) for member, node in view.nodes.items()}
    known = _retain({**current, **last_seen.locations}, relevant)
    last_seen.locations = {
        member: _merge_location(location, pods.get(location.pod)) for member, location in known.items()
    }


def _record_losses(last_seen: LastSeen, view: RendezvousView) -> None:
    before, after, state = last_seen.membership, view.membership, view.state
    if before and after and after.round > before.round:
        _record_lost_since(last_seen, view, before)  # unless it was recorded while that round formed
    if after and state and state.phase is RoundPhase.FORMING and not state.has_verdict:
        last_seen.lost_nodes = lost_nodes(view, after) or last_seen.lost_nodes
    elif after and state and state.phase is RoundPhase.FORMING:
        _record_lost_since(last_seen, view, after)
    last_seen.membership = after


def _record_lost_since(last_seen: LastSeen, view: RendezvousView, membership: Membership) -> None:
    if all(lost.round != membership.round for lost in last_seen.lost_nodes):
        last_seen.lost_nodes = lost_nodes(view, membership) or last_seen.lost_nodes


def _retain(items: Mapping[Member, T], members: Iterable[Member]) -> dict[Member, T]:
    return {member: items[member] for member in members if member in items}


def _merge_location(location: PodLocation, pod: Pod | None) -> PodLocation:
    if pod is None:
        return location
    return PodLocation(location.pod, pod.node_name or location.node_name, pod.exit_code)

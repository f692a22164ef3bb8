"""The next step to keep the members of etcd complete, from the member list and the pods without data.

A pod that has lost its data cannot rejoin under its former id. That member is removed, added again as a learner, and
promoted when it is up to date. Each step needs the majority of the others, so only one is taken at a time. Only a pod's
own answer that it has no data counts; silence does not. The member list must be older than the answers. Otherwise a pod
that starts in between would look empty.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from elasticjob_etcd.members import EtcdMember


@dataclass(frozen=True, slots=True)
class RemoveMember:
    """Remove a member that has lost its data."""

    member: EtcdMember


@dataclass(frozen=True, slots=True)
class AddLearner:
    """Add a pod without data as a learner."""

    name: str
    peer_url: str


@dataclass(frozen=True, slots=True)
class Promote:
    """Give a learner its vote; etcd refuses while it is behind."""

    member: EtcdMember


@dataclass(frozen=True, slots=True)
class Update:
    """Set the peer URL of a member that was the only one, so that others can reach it."""

    member: EtcdMember
    peer_url: str


Step = RemoveMember | AddLearner | Promote | Update


def next_step(members: Sequence[EtcdMember], pods: Mapping[str, str], empty: AbstractSet[str]) -> Step | None:
    """Return the next step.

    Args:
        members: the members, as etcd lists them.
        pods: peer URL of each pod, by name.
        empty: names of the pods that have answered that they have no data.
    """
    if (alone := _only_one_elsewhere(members, pods)) is not None and alone.name not in empty:
        return Update(alone, pods[alone.name])
    by_url = {url: member for member in members for url in member.peer_urls}
    for name in sorted(empty & pods.keys()):
        member = by_url.get(pods[name])
        if member is not None and (member.name or not member.is_learner):  # it has started once, or has a vote
            return RemoveMember(member)
    learners = [member for member in members if member.is_learner]
    if started := [member for member in learners if member.name]:
        return Promote(started[0])
    if learners:  # etcd accepts one learner at a time
        return None
    missing = [name for name in sorted(empty & pods.keys()) if pods[name] not in by_url]
    return AddLearner(missing[0], pods[missing[0]]) if missing else None


def _only_one_elsewhere(members: Sequence[EtcdMember], pods: Mapping[str, str]) -> EtcdMember | None:
    """Return the only member, if it is one of ours and is listed with another URL than its pod's.

    A single member listens for peers on its loopback address only. The URLs of several members are never changed,
    because the members reach each other by them.
    """
    match members:
        case [member] if member.name in pods and pods[member.name] not in member.peer_urls:
            return member
        case _:
            return None

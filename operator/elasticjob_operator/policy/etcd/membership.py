"""PURE: what keeps etcd's members complete: (members as etcd lists them, pods without data) → the next step.

A pod that has lost its data takes no part under its former id: that member is removed, added as a learner, and
promoted when it is up to date. One step at a time, each of which needs the others' majority. Only a pod's own answer
that it has no data counts; silence does not. The list must be older than the answers: a pod that starts in between is
then not taken for one that is empty.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from elasticjob_etcd.members import Member


@dataclass(frozen=True, slots=True)
class Remove:
    """Remove a member whose data are lost."""

    member: Member


@dataclass(frozen=True, slots=True)
class AddLearner:
    """Let a pod without data join."""

    name: str
    peer_url: str


@dataclass(frozen=True, slots=True)
class Promote:
    """Give a learner its vote; etcd refuses while it is behind."""

    member: Member


@dataclass(frozen=True, slots=True)
class Update:
    """Write at which URL the others reach a member that was the only one."""

    member: Member
    peer_url: str


Step = Remove | AddLearner | Promote | Update


def next_step(members: Sequence[Member], pods: Mapping[str, str], empty: AbstractSet[str]) -> Step | None:
    """The next step; `pods` are the peer URLs by name, `empty` the names of those that have answered so."""
    if (alone := _only_one_elsewhere(members, pods)) is not None and alone.name not in empty:
        return Update(alone, pods[alone.name])
    by_url = {url: member for member in members for url in member.peer_urls}
    for name in sorted(empty & pods.keys()):
        member = by_url.get(pods[name])
        if member is not None and (member.name or not member.is_learner):  # it had started once, or has a vote
            return Remove(member)
    learners = [member for member in members if member.is_learner]
    if started := [member for member in learners if member.name]:
        return Promote(started[0])
    if learners:  # etcd takes one at a time
        return None
    missing = [name for name in sorted(empty & pods.keys()) if pods[name] not in by_url]
    return AddLearner(missing[0], pods[missing[0]]) if missing else None


def _only_one_elsewhere(members: Sequence[Member], pods: Mapping[str, str]) -> Member | None:
    """The only member, if it is one of ours and is listed at another URL than its pod's.

    A single member listens for peers on its loopback alone. Where there are several the URLs are never changed: they
    speak to each other by them.
    """
    match members:
        case [member] if member.name in pods and pods[member.name] not in member.peer_urls:
            return member
        case _:
            return None

"""The start mode of one member of an etcd cluster: (own data, the others' answers) → start, bootstrap, join, wait.

Two rules keep one cluster from becoming two. Only the first member ever begins a cluster, alone, and only after every
other one has answered that it has no data. The others join by being added as learners. Silence proves nothing: an
unreachable member may have data, so this member waits for it. A member with data continues without the others only
after every other one has answered that it has none, or has no vote.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True, slots=True)
class ListedMember:
    """One entry of a running member's list; it has a name once it has started."""

    name: str
    peer_url: str
    is_learner: bool


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """No answer, or an answer that proves nothing."""


@dataclass(frozen=True, slots=True)
class Empty:
    """The member has no data, and waits."""


@dataclass(frozen=True, slots=True)
class Running:
    """The member's etcd runs and knows these members."""

    members: tuple[ListedMember, ...]


@dataclass(frozen=True, slots=True)
class Learner:
    """The member's etcd runs and has no vote: a voter has all of its data, too."""


Answer = NoAnswer | Empty | Running | Learner


class Action(Enum):
    """The next step of the member."""

    START = "start on the existing data"
    FORCE = "continue alone on the existing data: no other member has data and a vote"
    BOOTSTRAP = "begin a cluster"
    JOIN = "join the running cluster"
    DISCARD = "discard the existing data: the cluster has removed this member"
    WAIT = "wait"


@dataclass(frozen=True, slots=True)
class Decision:
    """An action; `initial_cluster` is etcd's flag for a join, `reason` the condition of a wait."""

    action: Action
    initial_cluster: tuple[tuple[str, str], ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Own:
    """This member."""

    name: str
    peer_url: str
    is_first: bool
    has_data: bool


def decide(own: Own, others: Mapping[str, Answer]) -> Decision:
    """Return the member's action after each other one was queried."""
    all_empty = all(isinstance(answer, Empty) for answer in others.values())
    running = [answer for answer in others.values() if isinstance(answer, Running)]
    if own.has_data:
        if others and all(isinstance(answer, Empty | Learner) for answer in others.values()):
            return Decision(Action.FORCE)
        is_removed = _is_majority(running) and _entry(own, running[0]) is None
        return Decision(Action.DISCARD if is_removed else Action.START)
    if running:
        return _join(own, running)
    if not all_empty:
        away = sorted(name for name, answer in others.items() if not isinstance(answer, Empty))
        return Decision(Action.WAIT, reason=f"no conclusive answer from {', '.join(away)}")
    if own.is_first:
        return Decision(Action.BOOTSTRAP, ((own.name, own.peer_url),))
    return Decision(Action.WAIT, reason="no member has data; the first one begins the cluster")


def _join(own: Own, running: list[Running]) -> Decision:
    """Join if a majority of the voters list this member as a learner that has not started, and none disagrees."""
    entries = [_entry(own, answer) for answer in running]
    if any(entry is None or entry.name or not entry.is_learner for entry in entries):
        return Decision(Action.WAIT, reason="the cluster runs; the operator has not added this member yet")
    if not _is_majority(running):
        return Decision(Action.WAIT, reason="a majority of the cluster's members must answer, and agree")
    named = tuple((member.name or own.name, member.peer_url) for member in running[0].members)
    return Decision(Action.JOIN, named)


def _is_majority(running: list[Running]) -> bool:
    """Whether a majority of the voters answered, all with the same list."""
    if len({frozenset(answer.members) for answer in running}) != 1:
        return False
    voters = sum(not member.is_learner for member in running[0].members)
    return 2 * len(running) > voters


def _entry(own: Own, answer: Running) -> ListedMember | None:
    return next((member for member in answer.members if member.peer_url == own.peer_url), None)

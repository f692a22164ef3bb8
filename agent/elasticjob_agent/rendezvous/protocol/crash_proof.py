"""Whether events on the link to one incarnation prove that it is gone; the sockets are in `leader.dial`.

An incarnation is proved to be gone only by three events in this order. A link with its hello was established. That link
ended by EOF or reset. A later dial was refused, or another incarnation answered it. Other outcomes prove nothing: a
time-out, no route, no answer, a malformed line, a missing signature, a socket that connected to itself. After those the
leader dials again a few times, then the lease decides. A wrong proof costs one round.

A leader that replaces a crashed one has no links. It assumes that its predecessor had a link to every member. So a
member that died together with the leader is confirmed by one refused dial, not by its lease.
"""

from dataclasses import dataclass, replace
from enum import Enum

RETRY_DELAYS_S = (0.0, 0.01, 0.1, 0.5, 2.0)
"""Delays before each dial, in seconds; after the last one the lease decides.

A dying process may still accept a connection for some milliseconds, and then reset it.
"""
DIAL_SPREAD_S = 0.0005
"""Seconds by which each of several first dials is later than the one before.

A round has just begun then, and many nodes start their workers.
"""
STABLE_S = 2.0
"""A link that lasted this many seconds was stable: the count of dials starts again."""


class DialOutcome(Enum):
    """The outcome of a dial, or of an established link."""

    PEER = "the hello of the expected incarnation"
    OTHER = "the hello of another incarnation"
    OWN = "a socket that connected to itself"
    REFUSED = "no process listens"
    TIMEOUT = "no answer, no route, or a malformed line"
    ENDED = "end of an established link"


_REFUSALS_FOR_PROOF = {DialOutcome.OTHER, DialOutcome.REFUSED}


@dataclass(frozen=True, slots=True)
class Link:
    """The history of the link to one incarnation."""

    was_established: bool = False
    """Whether its hello was received once; only then can later events prove something."""
    tries: int = 0
    """Dials so far that did not lead to a stable link."""


@dataclass(frozen=True, slots=True)
class LinkStep:
    """The next step: the incarnation is gone, or dial after `dial_in_s` seconds, or neither (None): wait."""

    link: Link
    is_crashed: bool = False
    dial_in_s: float | None = None


def first_step(*, members: int = 1) -> LinkStep:
    """Return the first dial, delayed if `members` links are opened at the same time."""
    return replace(_dial_again(Link()), dial_in_s=(members - 1) * DIAL_SPREAD_S)


def adopt() -> LinkStep:
    """Return the first dial to a member that the previous leader had a link to: at once."""
    return _dial_again(Link(was_established=True))


def next_step(link: Link, outcome: DialOutcome, *, lasted_s: float = 0.0) -> LinkStep:
    """Return the step after one event; `lasted_s` is how long a link lasted, for ENDED."""
    if outcome is DialOutcome.PEER:
        return LinkStep(replace(link, was_established=True))
    if outcome is DialOutcome.ENDED:
        tries = 0 if lasted_s >= STABLE_S else link.tries
        return _dial_again(replace(link, was_established=True, tries=tries))
    if link.was_established and outcome in _REFUSALS_FOR_PROOF:
        return LinkStep(link, is_crashed=True)
    return _dial_again(link)


def _dial_again(link: Link) -> LinkStep:
    pause_s = RETRY_DELAYS_S[link.tries] if link.tries < len(RETRY_DELAYS_S) else None
    return LinkStep(replace(link, tries=link.tries + 1), dial_in_s=pause_s)

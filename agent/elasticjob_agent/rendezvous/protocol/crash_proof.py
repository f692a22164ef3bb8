"""PURE: what a sequence of events on the link to one incarnation proves; sockets are elsewhere.

It is gone only if a link with its hello was established, that link ended by EOF or reset, and a dial after that was
refused or answered by another incarnation. Other ends prove nothing: a time-out, no route, silence, nonsense, no seal
of the job, a socket that connected to itself. Then it is dialed again a few times, and the lease decides. A wrong proof
costs one round.

A closer that replaces a crashed one has no links. It assumes that its predecessor had a link to every member. So a
member that died together with the closer is confirmed by one refused dial, not by its lease.
"""

from dataclasses import dataclass, replace
from enum import Enum

RETRY_DELAYS_S = (0.0, 0.01, 0.1, 0.5, 2.0)
"""Before each dial; then the lease decides. A dying process may still accept for some milliseconds, and then reset."""
DIAL_SPREAD_S = 0.0005
"""For each other link begun at that moment: until then a crowd, whose round has just begun, starts its workers."""
STABLE_S = 2.0
"""A link that lasted for so long was no accident: the count of dials begins anew."""


class DialOutcome(Enum):
    """The outcome of a dial, or of an established link."""

    PEER = "the hello of the incarnation that was meant"
    OTHER = "the hello of another incarnation"
    OWN = "a socket that connected to itself"
    REFUSED = "nobody listens"
    TIMEOUT = "no answer, no route, or nonsense"
    ENDED = "end of a link that stood"


_REFUSALS_FOR_PROOF = {DialOutcome.OTHER, DialOutcome.REFUSED}


@dataclass(frozen=True, slots=True)
class Link:
    """All that is remembered of the link to one incarnation."""

    was_established: bool = False
    """Its hello came once, and so what follows can prove something."""
    tries: int = 0
    """Dials so far that led to no lasting link."""


@dataclass(frozen=True, slots=True)
class LinkStep:
    """What follows: proof that it is gone; or a dial after so many seconds; or (None) nothing but to wait."""

    link: Link
    is_crashed: bool = False
    dial_in_s: float | None = None


def first_step(*, members: int = 1) -> LinkStep:
    """The first dial of one of so many that are begun together."""
    return replace(_dial_again(Link()), dial_in_s=(members - 1) * DIAL_SPREAD_S)


def adopt() -> LinkStep:
    """The first dial where another had a link, and it ended: at once."""
    return _dial_again(Link(was_established=True))


def next_step(link: Link, outcome: DialOutcome, *, lasted_s: float = 0.0) -> LinkStep:
    """The consequences of one event; `lasted_s` is how long a link stood that ENDED."""
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

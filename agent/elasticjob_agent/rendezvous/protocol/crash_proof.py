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

PAUSES_S = (0.0, 0.01, 0.1, 0.5, 2.0)
"""Before each dial; then the lease decides. A dying process may still accept for some milliseconds, and then reset."""
CROWD_S = 0.0005
"""For each other link begun at that moment: until then a crowd, whose round has just begun, starts its workers."""
STEADY_S = 2.0
"""A link that lasted for so long was no accident: the count of dials begins anew."""


class Heard(Enum):
    """The outcome of a dial, or of an established link."""

    THEIRS = "the hello of the incarnation that was meant"
    OTHER = "the hello of another incarnation"
    OWN = "a socket that connected to itself"
    REFUSED = "nobody listens"
    NOTHING = "no answer, no route, or nonsense"
    ENDED = "end of a link that stood"


_DENIED = {Heard.OTHER, Heard.REFUSED}


@dataclass(frozen=True, slots=True)
class Link:
    """All that is remembered of the link to one incarnation."""

    stood: bool = False
    """Its hello came once, and so what follows can prove something."""
    tries: int = 0
    """Dials so far that led to no lasting link."""


@dataclass(frozen=True, slots=True)
class Next:
    """What follows: proof that it is gone; or a dial after so many seconds; or (None) nothing but to wait."""

    link: Link
    gone: bool = False
    dial_in_s: float | None = None


def begin(*, among: int = 1) -> Next:
    """The first dial of one of so many that are begun together."""
    return replace(_dial_again(Link()), dial_in_s=(among - 1) * CROWD_S)


def inherit() -> Next:
    """The first dial where another had a link, and it ended: at once."""
    return _dial_again(Link(stood=True))


def after(link: Link, heard: Heard, *, lasted_s: float = 0.0) -> Next:
    """The consequences of one event; `lasted_s` is how long a link stood that ENDED."""
    if heard is Heard.THEIRS:
        return Next(replace(link, stood=True))
    if heard is Heard.ENDED:
        tries = 0 if lasted_s >= STEADY_S else link.tries
        return _dial_again(replace(link, stood=True, tries=tries))
    if link.stood and heard in _DENIED:
        return Next(link, gone=True)
    return _dial_again(link)


def _dial_again(link: Link) -> Next:
    pause_s = PAUSES_S[link.tries] if link.tries < len(PAUSES_S) else None
    return Next(replace(link, tries=link.tries + 1), dial_in_s=pause_s)

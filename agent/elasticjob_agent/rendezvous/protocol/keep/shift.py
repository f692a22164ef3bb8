"""Which members keep replicas for which: replica k of the member of rank g is at rank (g + k · shift) mod n.

One number makes each member a keeper for as many others as keep for it. A replacement takes the rank of the node that
it replaces, so it changes no pair besides its own.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

_NEXT_RANKS = 3
"""How many ranks further a member looks for another host than its own."""


class Place(NamedTuple):
    """Where a member runs."""

    host: str
    topology: str = ""
    """The text by which neighbours are sorted: members with equal ones share a rack."""


def choose_shift(places: Sequence[Place], copies: int, previous: int = 0) -> int:
    """Return the shift for members at these places in rank order; 0 if there is no other member.

    The previous one remains if no member then shares its host or its rack with a replica of its own. Else it is the
    candidate with the fewest pairs on one host, and among those with the fewest pairs in one rack.
    """
    size = len(places)
    if size <= 1 or copies <= 0:
        return 0
    candidates = [previous % size] if previous > 0 and previous % size else []
    candidates += [shift % size for shift in _candidates(places) if shift % size]
    return min(candidates, key=lambda shift: count_conflicts(places, copies, shift))


def _candidates(places: Sequence[Place]) -> Iterator[int]:
    size = len(places)
    # Ranks of one rack are contiguous, so this shift leaves the rack whenever no rack has more than half of the nodes.
    largest = max(Counter(place.topology for place in places).values())
    yield from (size // 2, largest, size - largest, 1, 2, 3, 5, 7, 11, size // 3, size // 4)


def count_conflicts(places: Sequence[Place], copies: int, shift: int) -> tuple[int, int]:
    """Return how many pairs of a member and its replica share a host, and how many share a rack."""
    size = len(places)
    replicas = range(1, 1 + min(copies, size - 1))
    pairs = [(places[rank], places[(rank + k * shift) % size]) for rank in range(size) for k in replicas]
    hosts = sum(a.host == b.host for a, b in pairs)
    racks = sum(a.topology == b.topology for a, b in pairs)
    return hosts, racks


def replica_ranks(hosts: Sequence[str], rank: int, shift: int, copies: int, *, full: Collection[int] = ()) -> list[int]:
    """Return the ranks to which the member of this rank copies its parts, in the order of its replicas.

    A rank that is `full` gives way to one of the next three. So does a rank on the own host, if one of those is
    elsewhere. A replica on the same host still outlives the pod.
    """
    size, found = len(hosts), list[int]()
    for k in range(1, 1 + min(copies, size - 1)):
        near = [(rank + k * shift + further) % size for further in range(1 + _NEXT_RANKS)]
        free = [other for other in near if other != rank and other not in found and other not in full]
        elsewhere = [other for other in free if hosts[other] != hosts[rank]]
        found += (elsewhere or free)[:1]
    return found

"""Rendezvous of more nodes than this machine can run, simulated from measurements on it.

Requests queue for etcd's cores and its network interface, states for the interface, plans for the leader; a member has
a core of its own. The costs of a request, of a plan and of reading the state are measured (`make bench-rendezvous`,
`benchmarks.rendezvous.planning`), bytes follow their fits. The measurements themselves are simulated too, with
everything on the same cores, so the table shows the error of the simulation where it is known.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, replace

from benchmarks.rendezvous.fits import Line, PowerLaw, power_law, straight_line
from benchmarks.report.results import OURS, Series, format_value

TRIPS = 3
"""Requests of a join, one after the other: watch, lease, key."""
MEMBER_BYTES = 12
"""A member of the state, which is sent to every member."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Measured: seconds of a processor, and bytes."""

    etcd_join_s: float
    etcd_ready_s: float
    """etcd's time for one node, in a first and in a next round."""
    member_join_s: float
    member_ready_s: float
    plan: PowerLaw
    place: PowerLaw
    join_bytes: Line
    """Bytes that etcd sends one node until it has joined, without the state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The machine; `shared`: members and leader on etcd's own cores, as in the measurement."""

    name: str
    cores: int
    gbit_s: float
    trip_s: float
    shared: bool = False


class Queue:
    """A queue with so many servers; the first free one serves the next request."""

    def __init__(self, servers: int) -> None:
        self._free_at_s = [0.0] * servers

    def serve(self, at_s: float, took_s: float) -> float:
        """Return the end of a request; call in order of time."""
        done_s = max(at_s, heapq.heappop(self._free_at_s)) + took_s
        heapq.heappush(self._free_at_s, done_s)
        return done_s


@dataclass(frozen=True, slots=True)
class Simulated:
    """Seconds, and the use of each shared resource during the first round."""

    first_s: float
    next_s: float
    busy: dict[str, float]

    @property
    def bottleneck(self) -> str:
        """Return the busiest resource."""
        return max(self.busy, key=lambda name: self.busy[name])


def simulate(nodes: int, costs: Costs, place: Place) -> Simulated:
    """Simulate a simultaneous start of all nodes: the worst case."""
    etcd, wire = Queue(place.cores), Queue(1)
    byte_s = 8 / place.gbit_s / 1e9
    join_bytes, place_s = costs.join_bytes.at(nodes), costs.place.at(nodes)
    member_s = costs.member_join_s if place.shared else 0.0
    steps = [(0.0, node, 0) for node in range(nodes)]
    joined_s = 0.0
    while steps:
        at_s, node, trip = heapq.heappop(steps)
        answered_s = etcd.serve(at_s, (costs.etcd_join_s + member_s) / TRIPS)
        done_s = wire.serve(answered_s, join_bytes / TRIPS * byte_s) + place.trip_s
        if trip + 1 < TRIPS:
            heapq.heappush(steps, (done_s, node, trip + 1))
        joined_s = max(joined_s, done_s)
    state_s = _state_s(nodes, place)
    first_s = joined_s + costs.plan.at(nodes) + state_s + place_s
    busy = {
        "etcd's processor": nodes * (costs.etcd_join_s + member_s) / place.cores / first_s,
        "etcd's network": nodes * (join_bytes + MEMBER_BYTES * nodes) * byte_s / first_s,
        "the closer": costs.plan.at(nodes) / first_s,
    }
    ready_s = nodes * (costs.etcd_ready_s + (costs.member_ready_s if place.shared else 0.0)) / place.cores
    next_s = 3 * place.trip_s + max(ready_s, place_s) + 2 * costs.plan.at(nodes) + state_s + place_s
    return Simulated(first_s, next_s, busy)


def _state_s(nodes: int, place: Place) -> float:
    """Return the time until the last watcher has the state."""
    return nodes * MEMBER_BYTES * nodes * 8 / place.gbit_s / 1e9 + place.trip_s


def costs_of(series: Sequence[Series]) -> Costs | None:
    """Return the costs of this run, from its largest job, for each node; None if some were not measured."""
    by_name: dict[str, list[Series]] = {}
    for each in series:
        if each.side == OURS and each.size:
            by_name.setdefault(each.name, []).append(each)
    first, following = "first round", "next round after a failure"
    names = [f"{act}: processor, {whose}" for act in (first, following) for whose in ("etcd", "members")]
    laws = ["a closer plans a round", "a member takes its place", f"{first}: etcd sends, a node"]
    if not all(name in by_name for name in names + laws):
        return None
    etcd_join_s, member_join_s, etcd_ready_s, member_ready_s = (_a_node(by_name[name]) for name in names)
    points = [[(float(each.size or 1), each.p50) for each in by_name[name]] for name in laws]
    plan, place, sent = power_law(points[0]), power_law(points[1]), straight_line(points[2])
    return Costs(
        etcd_join_s=etcd_join_s,
        etcd_ready_s=etcd_ready_s,
        member_join_s=member_join_s,
        member_ready_s=member_ready_s,
        plan=plan,
        place=place,
        join_bytes=Line(sent.base, max(0.0, sent.slope - MEMBER_BYTES)),
    )


def _a_node(series: Sequence[Series]) -> float:
    largest = max(series, key=lambda each: each.size or 0)
    return largest.p50 / (largest.size or 1)


HERE = Place(name="this machine", cores=2, gbit_s=20.0, trip_s=0.0003, shared=True)
CLUSTER = Place(name="etcd on 4 cores, 10 Gbit/s", cores=4, gbit_s=10.0, trip_s=0.0005)


def report(series: Sequence[Series]) -> list[str]:
    """Return a markdown table: the measured sizes, and 10,000; also with changes that move the bottleneck."""
    costs = costs_of(series)
    if costs is None:
        return []
    lines = ["| nodes | where | first round | measured | next round | measured | busiest |", "|" + " --- |" * 7]
    sizes = sorted({each.size for each in series if each.name == "first round" and each.side == OURS and each.size})
    lines += [_row(size, costs, HERE, series) for size in sizes]
    for size in (1000, 10_000):
        lines.append(_row(size, costs, CLUSTER, []))
        more = replace(CLUSTER, name="the same, and 16 cores", cores=16)
        lines.append(_row(size, costs, more, []))
    return lines


def _row(size: int, costs: Costs, place: Place, series: Sequence[Series]) -> str:
    found = simulate(size, costs, place)
    measured = {each.name: format_value(each.p50, "s") for each in series if each.size == size and each.side == OURS}
    busiest = f"{found.bottleneck} {100 * found.busy[found.bottleneck]:.0f} %"
    first, following = measured.get("first round", ""), measured.get("next round after a failure", "")
    cells = (
        f"{size:,}",
        place.name,
        format_value(found.first_s, "s"),
        first,
        format_value(found.next_s, "s"),
        following,
        busiest,
    )
    return "| " + " | ".join(cells) + " |"

"""The costs of a phase of `make bench-rendezvous`: processor of etcd and of all members, bytes and writes of etcd."""

from collections.abc import Iterator, Sequence

from benchmarks.profiles.cpu import used_s
from benchmarks.rendezvous.crowd import Child
from benchmarks.report import etcds
from benchmarks.report.etcds import Server

_ETCD = {
    "sends": "etcd_network_client_grpc_sent_bytes_total",
    "receives": "etcd_network_client_grpc_received_bytes_total",
    "writes": "etcd_mvcc_put_total",
}

Samples = dict[tuple[str, str, str, int], list[float]]
"""By name, side, unit and number of nodes."""


class Phase:
    """The use of etcd and all members from here on: processor, and for etcd bytes and writes."""

    def __init__(self, server: Server, children: Sequence[Child]) -> None:
        self._server = server
        self._etcd, self._members = server.pid, [child.process.pid for child in children]
        self._before = self._now_etcd()
        self._before_s = self._now_s()

    def _now_etcd(self) -> dict[str, float]:
        if self._server.endpoint.ca_cert:
            return {}
        counters = etcds.counters(self._server)
        return {name: counters[metric] for name, metric in _ETCD.items()}

    def used_etcd(self) -> dict[str, float]:
        """Return the use by name; with TLS nothing is known."""
        return {name: value - self._before[name] for name, value in self._now_etcd().items()}

    def _now_s(self) -> tuple[float, float]:
        return used_s([self._etcd]), used_s(self._members)

    def used_s(self) -> Iterator[tuple[str, float]]:
        """Yield the seconds so far, with their owner."""
        for whose, now_s, before_s in zip(("etcd", "members"), self._now_s(), self._before_s, strict=True):
            yield whose, now_s - before_s


def add(samples: Samples, what: tuple[str, str, int], took_s: float, phase: Phase) -> None:
    """Add the time of that phase, and its costs until now."""
    name, side, nodes = what
    samples.setdefault((name, side, "s", nodes), []).append(took_s)
    for whose, spent_s in phase.used_s():
        samples.setdefault((f"{name}: processor, {whose}", side, "s", nodes), []).append(spent_s)
    for what_etcd, used in phase.used_etcd().items():
        unit = "B" if "write" not in what_etcd else ""
        samples.setdefault((f"{name}: etcd {what_etcd}, a node", side, unit, nodes), []).append(used / nodes)

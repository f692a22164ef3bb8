"""Requests and bytes that etcd counts for a first round, the round after a failure, and members that are idle.

The product's own members run on an etcd of their own. Requests are exact except for races (one more campaign).
Bytes grow with the length of a port's number. An idle member's messages go by the clock: a suspended machine can only
have fewer of them.
"""

import time
from collections import Counter

from benchmarks.counts.record import Count
from benchmarks.rendezvous.bench import want
from benchmarks.rendezvous.crowd import Child, crowd
from benchmarks.report import etcds
from benchmarks.report.etcds import Server
from elasticjob_api.keys import Keys
from testing.waiting import eventually

NODES = 32
IDLE_S = 6.0
LEASE_S = 6.0
_BYTES = {
    "received": "etcd_network_client_grpc_received_bytes_total",
    "sent": "etcd_network_client_grpc_sent_bytes_total",
}
_QUIET_S = 0.5


def take() -> list[Count]:
    """Return the counts of a job's phases, for each node."""
    with etcds.etcd() as server:
        keys = Keys("/elasticjob/bench/default/job/uid")
        brief = want(server.endpoint, keys, NODES, LEASE_S)
        with crowd("benchmarks.rendezvous.members", server.endpoint, keys.prefix, NODES, brief=brief) as children:
            return _acts(server, children)


def _acts(server: Server, children: list[Child]) -> list[Count]:
    before = work(server)
    for child in children:
        child.order("go")
    for child in children:
        child.started_us(1)
    joined = settled(server)
    children[0].order("fail")
    children[0].receive("failed_us")
    for child in children:
        child.started_us(2)
    failed = settled(server)
    time.sleep(IDLE_S)
    idle = work(server)
    return [
        *_per_node("first round", joined - before, slack=0.2),
        *_per_node("next round after a failure", failed - joined, slack=0.2),
        Count("etcd messages of an idle node a second", _requests(idle - failed) / NODES / IDLE_S, slack=0.1),
    ]


def work(server: Server) -> "Counter[str]":
    """Return messages by method, and bytes, so far."""
    counters = etcds.counters(server)
    return etcds.messages(server) + Counter({name: int(counters[metric]) for name, metric in _BYTES.items()})


def settled(server: Server) -> "Counter[str]":
    """Return the counts when a phase is over: half a second without a message but keep-alives."""
    last: list[tuple[float, int]] = []

    def is_settled() -> bool:
        now = work(server)
        count = _requests(now) - now["LeaseKeepAlive"]
        if not last or last[-1][1] != count:
            last.append((time.monotonic(), count))
        return time.monotonic() - last[-1][0] >= _QUIET_S

    eventually(is_settled, within_s=30.0, what="an idle etcd")
    return work(server)


def _requests(work: "Counter[str]") -> int:
    return sum(count for name, count in work.items() if name not in _BYTES)


def _per_node(act: str, used: "Counter[str]", *, slack: float) -> list[Count]:
    requests = _requests(used) - used["LeaseKeepAlive"]
    return [
        Count(f"etcd requests a node, {act}", requests / NODES, slack=slack),
        Count(f"etcd writes a node, {act}", used["Txn"] / NODES, slack=slack),
        *(Count(f"bytes etcd {name} a node, {act}", used[name] / NODES, slack=100) for name in _BYTES),
    ]

"""Processor time of a crowd of members, in a first round and in the next: by layer, with etcd's beside it."""

import time
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence

from benchmarks.profiles.cpu import used_s
from benchmarks.profiles.table import table
from benchmarks.rendezvous.bench import want
from benchmarks.rendezvous.crowd import Child, crowd
from benchmarks.report import etcds
from benchmarks.report.etcds import Server
from elasticjob_api.keys import Keys

FIRST, NEXT, ETCD = "first round", "next round", "beside them etcd"
_LEASE_S, _SETTLE_S = 6.0, 2.0


class Sampled:
    """The members' samples, act by act."""

    def __init__(self, server: Server, children: Sequence[Child]) -> None:
        self.spent: dict[str, Counter[str]] = {}
        """Seconds by act and layer."""
        self.stacks: Counter[str] = Counter()
        self._server, self._children = server, children
        self._etcd_s = 0.0

    def begin(self) -> None:
        """Begin an act."""
        for child in self._children:
            child.order("begin")
            child.receive("sampled")
        self._etcd_s = used_s([self._server.pid])

    def end(self, act: str) -> None:
        """End an act: all have started this round."""
        spent: Counter[str] = Counter()
        spent[ETCD] = used_s([self._server.pid]) - self._etcd_s  # type: ignore[assignment]  # a counter of seconds
        for child in self._children:
            child.order("end")
            sampled_ = child.receive("layers")
            spent.update(sampled_["layers"])
            self.stacks.update({f"{act};{stack}": used_us for stack, used_us in sampled_["stacks"].items()})
        self.spent[act] = spent


def measure(nodes: int) -> tuple[str, Mapping[str, int]]:
    """Return the table, and every stack with its microseconds."""
    with etcds.etcd() as server:
        keys = Keys(f"/elasticjob/bench/default/job/{uuid.uuid4()}")
        brief = want(server.endpoint, keys, nodes, _LEASE_S)
        with crowd("benchmarks.profiles.members", server.endpoint, keys.prefix, nodes, brief=brief) as children:
            sampled = Sampled(server, children)
            _rounds(sampled, children)
    title = f"{nodes:,} members in {len(children)} processes beside one etcd: seconds of processor time"
    return table(title, sampled.spent, beside=[ETCD]), sampled.stacks


def _rounds(sampled: Sampled, children: Sequence[Child]) -> None:
    sampled.begin()
    for child in children:
        child.order("go")
    for child in children:
        child.started_us(1)
    sampled.end(FIRST)
    time.sleep(_SETTLE_S)
    sampled.begin()
    children[0].order("fail")
    children[0].receive("failed_us")
    for child in children:
        child.started_us(2)
    sampled.end(NEXT)

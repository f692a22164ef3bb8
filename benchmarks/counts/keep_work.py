"""Transactions that Keep adds to a round, their bytes, and etcd's writes while training publishes steps.

The first counts are of the product's members on an etcd of their own. With Keep, each of them holds two parts of a
step. The last count is of real agents with keepers, whose workers publish ten steps a second.
"""

import time
from collections import Counter

from benchmarks.counts.etcd_work import LEASE_S, settled
from benchmarks.counts.record import Count
from benchmarks.keep.rounds import job
from benchmarks.rendezvous.bench import want
from benchmarks.rendezvous.crowd import crowd
from benchmarks.report import etcds
from elasticjob_api.keys import Keys

NODES = 32
STEADY_S = 6.0
_AGENTS = 2
_QUIET_S = 12.0
"""Seconds after a round in which its reports are written."""


def take() -> list[Count]:
    """Return what Keep adds to each node's share of a round, and etcd's writes while nothing happens."""
    plain, keeping = round_work("benchmarks.rendezvous.members"), round_work("benchmarks.keep.members")
    more = {name: (keeping[name] - plain[name]) / NODES for name in ("Txn", "received", "sent")}
    return [
        Count("etcd writes a node that Keep adds, next round after a failure", max(0.0, more["Txn"]), slack=0.1),
        Count("bytes etcd received a node that Keep adds, next round after a failure", more["received"], slack=100),
        Count("bytes etcd sent a node that Keep adds, next round after a failure", more["sent"], slack=300),
        Count("etcd writes a second while steps are published", steady_writes(), slack=0.05),
    ]


def round_work(module: str, nodes: int = NODES) -> "Counter[str]":
    """Return the work of etcd for one round after a failure of these members."""
    with etcds.etcd() as server:
        keys = Keys("/elasticjob/bench/default/job/uid")
        copies = 1 if module.startswith("benchmarks.keep") else None
        brief = want(server.endpoint, keys, nodes, LEASE_S, keep_copies=copies)
        with crowd(module, server.endpoint, keys.prefix, nodes, brief=brief) as children:
            for child in children:
                child.order("go")
            for child in children:
                child.started_us(1)
            joined = settled(server)
            children[0].order("fail")
            children[0].receive("failed_us")
            for child in children:
                child.started_us(2)
            return settled(server) - joined


def steady_writes() -> float:
    """Return etcd's writes a second for agents that run, while their workers publish and nothing else happens."""
    with job(_AGENTS, keeps=True) as keeping:
        keeping.begin()
        keeping.fail()
        if not all(keeping.restored):
            raise AssertionError("no step was kept, so nothing was counted")
        time.sleep(_QUIET_S)
        before = keeping.writes()
        time.sleep(STEADY_S)
        return (keeping.writes() - before) / STEADY_S

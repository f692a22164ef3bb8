"""`make bench-rendezvous`: the time in which 64, 256 and 1,000 nodes agree, and their cost for etcd when idle.

A real etcd and four processes with the product's own members (`members`) run on this machine. So its processors bound
the result, not a network; `crowd` describes how they share them. The floor (`floor`) alternates with them: the same
trips to etcd in the same processes with nothing around them. There are two more variants: 1,000 over mutual TLS, cold,
and 1,000 scheduled as Linux does by default.

Once, torchrun's own rendezvous (`torch_members`) is measured, with one process a node.

First round: from the order `go` (members not yet connected) to the last start of round 1. Next round: from one worker's
failure to the last start of round 2. Then the use of etcd and of a member while nothing happens.
"""

import argparse
import asyncio
import contextlib
import functools
import json
import math
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from benchmarks.recovery.torchrun import TORCHRUN, torch_python
from benchmarks.rendezvous.costs import Phase, Samples, add
from benchmarks.rendezvous.crowd import PROCESSES, Child, crowd
from benchmarks.rendezvous.fits import power_laws
from benchmarks.rendezvous.members import pod_name
from benchmarks.report import etcds, results
from benchmarks.report.etcds import Server
from benchmarks.report.results import FLOOR, OURS, Report, Series
from elasticjob_api import records
from elasticjob_api.bootstrap import bootstrap_of, encode_bootstrap
from elasticjob_api.keys import Keys
from elasticjob_api.records import SlotOwner, SpecRecord
from elasticjob_api.rendezvous_state import Member, encode_members
from elasticjob_etcd.client import EtcdClient
from elasticjob_etcd.interface import Endpoint, Put, Txn

GROUP = "rendezvous"
FIRST, NEXT, SECURE = "first round", "next round after a failure", "first round, mutual TLS, cold"
PREEMPTED = "first round, members preempt each other"
IDLE_ETCD, IDLE_MEMBER = "idle: processor, etcd", "idle: processor, a member"
TARGETS = {
    (FIRST, 64): 0.2,
    (FIRST, 256): 0.4,
    (FIRST, 1000): 1.0,
    (NEXT, 64): 0.05,
    (NEXT, 256): 0.15,
    (NEXT, 1000): 0.5,
    (SECURE, 1000): 3.0,
    (IDLE_ETCD, 1000): 10.0,
    (IDLE_MEMBER, 1000): 0.02,
}
_ROOT = Path(__file__).parents[2]
_SETTLE_S = 2.0


class Written(NamedTuple):
    """The revision of a write in etcd, and its time."""

    revision: int
    at_us: int


async def put(endpoint: Endpoint, key: str, value: bytes) -> Written:
    """Write one key."""
    client = EtcdClient(endpoint)
    try:
        result = await client.txn(Txn((), (Put(key, value),)))
        return Written(result.revision, time.time_ns() // 1000)
    finally:
        await client.close()


def want(endpoint: Endpoint, keys: Keys, nodes: int, lease_s: float, *, keep_copies: int | None = None) -> str:
    """Write the wanted state, as an operator does, a slot for every node; return the bootstrap for their pods."""
    owners = {slot: SlotOwner(pod=pod_name(slot)) for slot in range(nodes)}
    spec = SpecRecord(
        min=nodes,
        max=nodes,
        desired=nodes,
        slots=owners,
        operator="benchmark",
        max_restarts=100,
        keep_alive_s=lease_s,
        keep_copies=keep_copies,
    )
    return encode_bootstrap(bootstrap_of(spec, asyncio.run(put(endpoint, keys.spec, records.encode(spec))).revision))


@contextlib.contextmanager
def joined(
    server: Server,
    nodes: int,
    lease_s: float,
    samples: Samples,
    *,
    first: str = FIRST,
    policy: int = os.SCHED_BATCH,
) -> Iterator[list[Child]]:
    """Run the product's members, none of them connected before, in their first round; `first` is its name."""
    prefix = f"/elasticjob/bench/default/job/{uuid.uuid4()}"
    brief = want(server.endpoint, Keys(prefix), nodes, lease_s)
    module = "benchmarks.rendezvous.members"
    with crowd(module, server.endpoint, prefix, nodes, brief=brief, policy=policy) as children:
        phase, begin_us = Phase(server, children), time.time_ns() // 1000
        for child in children:
            child.order("go")
        first_us = max(child.started_us(1) for child in children)
        add(samples, (first, OURS, nodes), (first_us - begin_us) / 1e6, phase)
        yield children


def product(server: Server, nodes: int, options: argparse.Namespace, samples: Samples) -> None:
    """Join, fail once, be idle."""
    with joined(server, nodes, options.lease_seconds, samples) as children:
        time.sleep(_SETTLE_S)  # the join is over
        phase = Phase(server, children)
        children[0].order("fail")
        failed_us = int(children[0].receive("failed_us")["failed_us"])
        next_us = max(child.started_us(2) for child in children)
        add(samples, (NEXT, OURS, nodes), (next_us - failed_us) / 1e6, phase)
        _idle(server, children, nodes, options.idle_seconds, samples)


def _idle(server: Server, children: Sequence[Child], nodes: int, idle_s: float, samples: Samples) -> None:
    """Measure percent of a core of etcd and of one member while nothing happens, and etcd's memory."""
    time.sleep(_SETTLE_S)
    phase = Phase(server, children)
    time.sleep(idle_s)
    for whose, spent_s in phase.used_s():
        name, shared = (IDLE_MEMBER, nodes) if whose == "members" else (IDLE_ETCD, 1)
        percent = 100 * spent_s / idle_s / shared
        samples.setdefault((name, OURS, "%", nodes), []).append(percent)
    memory_mb = psutil.Process(server.pid).memory_info().rss / 1e6
    samples.setdefault(("idle: memory, etcd", OURS, "MB", nodes), []).append(memory_mb)


def floor(server: Server, nodes: int, samples: Samples, first: str = FIRST) -> None:
    """Measure the trips alone; `first` is the name of the first round."""
    keys = Keys(f"/elasticjob/bench/default/floor/{uuid.uuid4()}")
    members = encode_members(tuple(Member(slot, "0" * 8) for slot in range(nodes))).encode()
    with crowd("benchmarks.rendezvous.floor", server.endpoint, keys.prefix, nodes) as children:
        phase, begin_us = Phase(server, children), time.time_ns() // 1000
        for child in children:
            child.order("go")
        first_us = _put_state(server, keys, children, "joined", b"active1 " + members)
        add(samples, (first, FLOOR, nodes), (first_us - begin_us) / 1e6, phase)
        if first != FIRST:
            return
        phase = Phase(server, children)
        begin_us = asyncio.run(put(server.endpoint, keys.rendezvous_state, b"forming2 ")).at_us
        next_us = _put_state(server, keys, children, "stopped", b"active2 " + members)
        add(samples, (NEXT, FLOOR, nodes), (next_us - begin_us) / 1e6, phase)


def _put_state(server: Server, keys: Keys, children: Sequence[Child], after: str, state: bytes) -> int:
    """Write a state when all have reported `after`; return the time at which the last member has received it."""
    for child in children:
        child.receive(after)
    asyncio.run(put(server.endpoint, keys.rendezvous_state, state))
    return max(child.started_us(int(state[6:7])) for child in children)


def secure(server: Server, nodes: int, lease_s: float, samples: Samples) -> None:
    """Measure the first round over mutual TLS."""
    with joined(server, nodes, lease_s, samples, first=SECURE):
        pass


def preempted(server: Server, nodes: int, lease_s: float, samples: Samples) -> None:
    """Measure the first round once more, scheduled as Linux does by default."""
    with joined(server, nodes, lease_s, samples, first=PREEMPTED, policy=os.SCHED_OTHER):
        pass


def peer(nodes: int, longest_s: float, samples: Samples) -> None:
    """Measure the rendezvous of torchrun over as many nodes, one process each; infinite is a late result."""
    python = torch_python()
    if python is None:
        print("no peer: hack/torch-venv makes the Python that has torch", file=sys.stderr)
        return
    command = [python, "-m", "benchmarks.rendezvous.torch_members", str(nodes), str(longest_s)]
    done = subprocess.run(command, cwd=_ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
    took = json.loads(done.stdout)
    for name, key in ((FIRST, "first"), (NEXT, "next")):
        samples.setdefault((name, TORCHRUN, "s", nodes), []).append(math.inf if took[key] is None else took[key])


def measure(options: argparse.Namespace, report: Report) -> None:
    """Measure all sizes in turn, as often as requested; the peer, which takes long, once."""
    samples: Samples = {}
    try:
        for nodes in options.torchrun_nodes:
            with results.attempt(report, f"{TORCHRUN}, {nodes} nodes"):
                peer(nodes, options.longest, samples)
        for turn in range(options.repetitions):
            for what, act in _acts(options, samples):
                with results.attempt(report, f"{what}, repetition {turn + 1}"):
                    act()
            print(f"repetition {turn + 1} of {options.repetitions} done", file=sys.stderr)
    finally:
        report.series = series_of(samples)


def _acts(options: argparse.Namespace, samples: Samples) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield one turn of every size and side, each with a server of its own."""
    for nodes in options.nodes:
        yield f"{nodes} nodes", functools.partial(_served, product, nodes, options, samples)
        yield f"floor of {nodes} nodes", functools.partial(_served, floor, nodes, samples)
        if nodes == max(options.nodes):
            act = functools.partial(_served, preempted, nodes, options.lease_seconds, samples)
            yield f"{nodes} nodes that preempt each other", act
    for nodes in options.tls_nodes:
        yield f"{nodes} nodes, TLS", functools.partial(_served, secure, nodes, options.lease_seconds, samples, tls=True)
        yield f"floor of {nodes} nodes, TLS", functools.partial(_served, floor, nodes, samples, SECURE, tls=True)


def _served(act: Callable[..., None], *arguments: Any, tls: bool = False) -> None:
    with etcds.etcd(secure=tls) as server:
        act(server, *arguments)


def series_of(samples: Samples) -> list[Series]:
    """Return a row each; times first, then costs."""
    order = sorted(samples, key=lambda key: (":" in key[0], key[0], key[3], key[1] != OURS))
    return [
        Series(GROUP, name, side, tuple(samples[name, side, unit, nodes]), unit, _target(name, side, nodes), nodes)
        for name, side, unit, nodes in order
    ]


def _target(name: str, side: str, nodes: int) -> float | None:
    return TARGETS.get((name, nodes)) if side == OURS else None


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="*", default=[64, 256, 1000])
    parser.add_argument("--tls-nodes", type=int, nargs="*", default=[1000])
    parser.add_argument("--torchrun-nodes", type=int, nargs="*", default=[16, 64])
    parser.add_argument("--longest", type=float, default=60.0, help="seconds that torchrun's nodes are waited for")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--idle-seconds", type=float, default=20.0)
    parser.add_argument("--lease-seconds", type=float, default=6.0, help="more on a machine that is busy otherwise")
    parser.add_argument("--json", type=Path, help="keep all samples there")
    options = parser.parse_args()
    report: Report = results.begin(etcd=etcds.version())
    with results.keep(report, options.json):
        measure(options, report)
        print("\n".join(f"{name}: {value}" for name, value in report.machine.items()))
        print(f"{PROCESSES} processes of members, etcd beside them\n\n{results.table(report.series)}")
        print("\ncost over the number of nodes N", *power_laws(report.series), sep="\n")


if __name__ == "__main__":
    main()

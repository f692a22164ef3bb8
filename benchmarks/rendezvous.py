"""`make bench-rendezvous`: how long 64, 256 and 1,000 nodes need to agree, and what they cost etcd when idle.

A real etcd, four processes with the product's own members (`rendezvous_members`), all on this machine: what is
measured is bounded by its processors, not by a network. Beside each, interleaved, the floor (`rendezvous_floor`):
the same trips to etcd in the same processes with nothing around them. And 1,000 over mutual TLS, cold.

Once beside them torchrun's own rendezvous (`torch_members`), one process a node.

First round: from the word `go` (members not yet connected) to the last start of round 1. Next round: from one
worker's failure to the last start of round 2. Then what etcd and a member use while nothing happens.
"""

import argparse
import asyncio
import json
import math
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil

from benchmarks import etcds, results
from benchmarks.crowd import PROCESSES, Child, cpu_s, crowd
from benchmarks.etcds import Server
from benchmarks.fits import power_laws
from benchmarks.recovery_torchrun import torch_python
from benchmarks.results import FLOOR, OURS, Report, Series
from elasticjob_api import records
from elasticjob_api.keys import Keys
from elasticjob_api.records import SlotOwner, Slots
from elasticjob_api.world import Member, encode_members
from elasticjob_etcd.client import EtcdClient
from elasticjob_etcd.protocol import Endpoint, Put, Txn

GROUP = "rendezvous"
FIRST, NEXT, SECURE = "first round", "next round after a failure", "first round, mutual TLS, cold"
TARGETS_S = {
    (FIRST, 64): 0.2,
    (FIRST, 256): 0.4,
    (FIRST, 1000): 1.0,
    (NEXT, 64): 0.05,
    (NEXT, 256): 0.15,
    (NEXT, 1000): 0.5,
    (SECURE, 1000): 3.0,
}
PEER = "torchrun c10d"
_ROOT = Path(__file__).parents[1]
_SETTLE_S = 2.0
_ETCD = {
    "sends": "etcd_network_client_grpc_sent_bytes_total",
    "receives": "etcd_network_client_grpc_received_bytes_total",
    "writes": "etcd_mvcc_put_total",
}

Samples = dict[tuple[str, str, str, int], list[float]]
"""By name, side, unit and number of nodes."""


async def put(endpoint: Endpoint, key: str, value: bytes) -> int:
    """When etcd had it."""
    client = EtcdClient(endpoint)
    try:
        await client.txn(Txn((), (Put(key, value),)))
        return time.time_ns() // 1000
    finally:
        await client.close()


def wanted(nodes: int, lease_s: float) -> bytes:
    """What is wanted, as an operator writes it: a slot for every node."""
    owners = {f"{slot:04x}": SlotOwner(pod=f"pod-{slot}") for slot in range(nodes)}
    spec = Slots(
        min=nodes,
        max=nodes,
        desired=nodes,
        slots=owners,
        operator="benchmark",
        max_restarts=100,
        keep_alive_s=lease_s,
    )
    return records.encode(spec)


class Phase:
    """What etcd and all members use from here on: processor, and of etcd bytes and writes."""

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
        """By name; of one with TLS nothing is known."""
        return {name: value - self._before[name] for name, value in self._now_etcd().items()}

    def _now_s(self) -> tuple[float, float]:
        return cpu_s(self._etcd), cpu_s(*self._members)

    def used_s(self) -> Iterator[tuple[str, float]]:
        """Seconds so far, with whose they are."""
        for whose, now_s, before_s in zip(("etcd", "members"), self._now_s(), self._before_s, strict=True):
            yield whose, now_s - before_s


def product(server: Server, nodes: int, options: argparse.Namespace, samples: Samples) -> None:
    """Join, fail once, be idle."""
    prefix = f"/elasticjob/bench/default/job/{uuid.uuid4()}"
    asyncio.run(put(server.endpoint, Keys(prefix).spec, wanted(nodes, options.lease_seconds)))
    with crowd("benchmarks.rendezvous_members", server.endpoint, prefix, nodes) as children:
        phase, begin_us = Phase(server, children), time.time_ns() // 1000
        for child in children:
            child.order("go")
        first_us = max(child.started_us(1) for child in children)
        _add(samples, (FIRST, OURS, nodes), (first_us - begin_us) / 1e6, phase)
        time.sleep(_SETTLE_S)  # what belongs to joining is over
        phase = Phase(server, children)
        children[0].order("fail")
        failed_us = int(children[0].hear("failed_us")["failed_us"])
        next_us = max(child.started_us(2) for child in children)
        _add(samples, (NEXT, OURS, nodes), (next_us - failed_us) / 1e6, phase)
        _idle(server, children, nodes, options.idle_seconds, samples)


def _add(samples: Samples, what: tuple[str, str, int], took_s: float, phase: Phase) -> None:
    name, side, nodes = what
    samples.setdefault((name, side, "s", nodes), []).append(took_s)
    for whose, used_s in phase.used_s():
        samples.setdefault((f"{name}: processor, {whose}", side, "s", nodes), []).append(used_s)
    for what_etcd, used in phase.used_etcd().items():
        unit = "B" if "write" not in what_etcd else ""
        samples.setdefault((f"{name}: etcd {what_etcd}, a node", side, unit, nodes), []).append(used / nodes)


def _idle(server: Server, children: Sequence[Child], nodes: int, idle_s: float, samples: Samples) -> None:
    """Percent of a core that etcd, and one member, take while nothing happens; etcd's memory."""
    time.sleep(_SETTLE_S)
    phase = Phase(server, children)
    time.sleep(idle_s)
    for whose, used_s in phase.used_s():
        percent = 100 * used_s / idle_s / (nodes if whose == "members" else 1)
        name = "idle: processor, " + ("a member" if whose == "members" else whose)
        samples.setdefault((name, OURS, "%", nodes), []).append(percent)
    memory_mb = psutil.Process(server.pid).memory_info().rss / 1e6
    samples.setdefault(("idle: memory, etcd", OURS, "MB", nodes), []).append(memory_mb)


def floor(server: Server, nodes: int, samples: Samples) -> None:
    """The trips alone."""
    keys = Keys(f"/elasticjob/bench/default/floor/{uuid.uuid4()}")
    members = encode_members(tuple(Member(slot, "0" * 8) for slot in range(nodes))).encode()
    with crowd("benchmarks.rendezvous_floor", server.endpoint, keys.prefix, nodes) as children:
        phase, begin_us = Phase(server, children), time.time_ns() // 1000
        for child in children:
            child.order("go")
        first_us = _world(server, keys, children, "joined", b"active1 " + members)
        _add(samples, (FIRST, FLOOR, nodes), (first_us - begin_us) / 1e6, phase)
        phase = Phase(server, children)
        begin_us = asyncio.run(put(server.endpoint, keys.world, b"forming2 "))
        next_us = _world(server, keys, children, "stopped", b"active2 " + members)
        _add(samples, (NEXT, FLOOR, nodes), (next_us - begin_us) / 1e6, phase)


def _world(server: Server, keys: Keys, children: Sequence[Child], after: str, world: bytes) -> int:
    """Write it when all have said `after`; when the last has seen it."""
    for child in children:
        child.hear(after)
    asyncio.run(put(server.endpoint, keys.world, world))
    return max(child.started_us(int(world[6:7])) for child in children)


def secure(nodes: int, lease_s: float, samples: Samples) -> None:
    """The first round over mutual TLS; no member has ever connected."""
    prefix = f"/elasticjob/bench/default/job/{uuid.uuid4()}"
    with etcds.etcd(secure=True) as server:
        asyncio.run(put(server.endpoint, Keys(prefix).spec, wanted(nodes, lease_s)))
        with crowd("benchmarks.rendezvous_members", server.endpoint, prefix, nodes) as children:
            phase, begin_us = Phase(server, children), time.time_ns() // 1000
            for child in children:
                child.order("go")
            first_us = max(child.started_us(1) for child in children)
            _add(samples, (SECURE, OURS, nodes), (first_us - begin_us) / 1e6, phase)


def peer(nodes: int, longest_s: float, samples: Samples) -> None:
    """The rendezvous of torchrun over as many nodes, one process each; infinite is what did not come in time."""
    python = torch_python()
    if python is None:
        print("no peer: hack/torch-venv makes the Python that has torch", file=sys.stderr)
        return
    command = [python, "-m", "benchmarks.torch_members", str(nodes), str(longest_s)]
    done = subprocess.run(command, cwd=_ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
    took = json.loads(done.stdout)
    for name, key in ((FIRST, "first"), (NEXT, "next")):
        samples.setdefault((name, PEER, "s", nodes), []).append(math.inf if took[key] is None else took[key])


def measure(options: argparse.Namespace) -> list[Series]:
    """All sizes in turn, as often as asked for; the peer, which takes minutes, once."""
    samples: Samples = {}
    for nodes in options.torchrun_nodes:
        peer(nodes, options.longest, samples)
    for turn in range(options.repetitions):
        for nodes in options.nodes:
            with etcds.etcd() as server:
                product(server, nodes, options, samples)
            with etcds.etcd() as server:
                floor(server, nodes, samples)
        for nodes in options.tls_nodes:
            secure(nodes, options.lease_seconds, samples)
        print(f"repetition {turn + 1} of {options.repetitions} done", file=sys.stderr)
    order = sorted(samples, key=lambda key: (":" in key[0], key[0], key[3], key[1] != OURS))
    return [
        Series(GROUP, name, side, tuple(samples[name, side, unit, nodes]), unit, _target(name, side, nodes), nodes)
        for name, side, unit, nodes in order
    ]


def _target(name: str, side: str, nodes: int) -> float | None:
    return TARGETS_S.get((name, nodes)) if side == OURS else None


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
    report.series = measure(options)
    if options.json:
        report.save(options.json)
    print("\n".join(f"{name}: {value}" for name, value in report.machine.items()))
    print(f"{PROCESSES} processes of members, etcd beside them\n\n{results.table(report.series)}")
    print("\ncost over the number of nodes N", *power_laws(report.series), sep="\n")


if __name__ == "__main__":
    main()

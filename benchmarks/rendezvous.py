"""`make bench-rendezvous`: how long 64, 256 and 1,000 nodes need to agree, and what they cost etcd when idle.

A real etcd, four processes with the product's own members (`rendezvous_members.py`), all on this machine: what is
measured is bounded by its processors, not by a network. Printed: from the word `go` (members not yet connected) to
the last start of round 1; from one worker's failure to the last start of round 2; processor time of etcd, of a
member, and memory of etcd while nothing happens.
"""

import argparse
import asyncio
import contextlib
import json
import platform
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from elasticjob_api import records
from elasticjob_api.keys import Keys
from elasticjob_api.records import SlotOwner, Slots
from elasticjob_etcd.client import EtcdClient
from elasticjob_etcd.protocol import Endpoint, Put, Txn
from elasticjob_etcd.server import EtcdServer

PROCESSES = 4
AIMS_S = {64: (0.2, 0.05), 256: (0.4, 0.15), 1000: (1.0, 0.5)}


@dataclass(frozen=True)
class Measured:
    """One job of `nodes`."""

    nodes: int
    join_s: float
    next_s: float
    join_cpu_s: tuple[float, float]
    """Processor time of etcd and of all members, from `go` to the last start."""
    next_cpu_s: tuple[float, float]
    etcd_percent: float
    member_percent: float
    etcd_mb: float


class Child:
    """One process of members."""

    def __init__(self, endpoint: str, prefix: str, first: int, count: int) -> None:
        line = [sys.executable, "-m", "benchmarks.rendezvous_members", endpoint, prefix, str(first), str(count)]
        self.process = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.hear("ready")

    def order(self, word: str) -> None:
        """Tell it."""
        if self.process.stdin is None:
            raise AssertionError("it has a pipe")
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()

    def hear(self, key: str) -> dict[str, Any]:
        """Its next line, which must have this key."""
        if self.process.stdout is None:
            raise AssertionError("it has a pipe")
        line = self.process.stdout.readline()
        said: dict[str, Any] = json.loads(line) if line else {}
        if key not in said:
            raise AssertionError(f"expected {key}, heard {line!r}")
        return said

    def started_us(self, round_: int) -> int:
        """When its last member has started this round."""
        said = self.hear("round")
        if said["round"] != round_:
            raise AssertionError(f"round {said['round']} is one too many")
        return int(said["at_us"])


@contextlib.contextmanager
def children(endpoint: str, prefix: str, nodes: int) -> Iterator[list[Child]]:
    """The members of one job, not yet told to go."""
    shares = [nodes // PROCESSES + (number < nodes % PROCESSES) for number in range(PROCESSES)]
    made: list[Child] = []
    try:
        for number, share in enumerate(shares):
            made.append(Child(endpoint, prefix, sum(shares[:number]), share))
        yield made
    finally:
        for child in made:
            child.process.kill()
            child.process.wait()


async def write_spec(endpoint: str, prefix: str, nodes: int, lease_s: float) -> None:
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
    etcd = EtcdClient(Endpoint((endpoint,)))
    try:
        await etcd.txn(Txn((), (Put(Keys(prefix).spec, records.encode(spec)),)))
    finally:
        await etcd.close()


def one_job(server: EtcdServer, nodes: int, idle_s: float, lease_s: float) -> Measured:
    """Join, fail once, be idle."""
    endpoint, prefix = server.endpoint.targets[0], f"/elasticjob/bench/default/job/{uuid.uuid4()}"
    asyncio.run(write_spec(endpoint, prefix, nodes, lease_s))
    with children(endpoint, prefix, nodes) as crowd:
        before = costs(server, crowd)
        begin_us = time.time_ns() // 1000
        for child in crowd:
            child.order("go")
        joined_us = max(child.started_us(1) for child in crowd)
        joined = costs(server, crowd)
        time.sleep(2.0)  # what belongs to joining is over
        settled = costs(server, crowd)
        crowd[0].order("fail")
        failed_us = int(crowd[0].hear("failed_us")["failed_us"])
        next_us = max(child.started_us(2) for child in crowd)
        next_cpu_s = less(costs(server, crowd), settled)
        etcd_percent, member_percent = idle(server, crowd, nodes, idle_s)
        return Measured(
            nodes=nodes,
            join_s=(joined_us - begin_us) / 1e6,
            next_s=(next_us - failed_us) / 1e6,
            join_cpu_s=less(joined, before),
            next_cpu_s=next_cpu_s,
            etcd_percent=etcd_percent,
            member_percent=member_percent,
            etcd_mb=psutil.Process(server.pid).memory_info().rss / 1e6,
        )


def idle(server: EtcdServer, crowd: list[Child], nodes: int, idle_s: float) -> tuple[float, float]:
    """Percent of a core that etcd, and one member, take while nothing happens."""
    time.sleep(2.0)
    before = costs(server, crowd)
    time.sleep(idle_s)
    etcd_s, members_s = less(costs(server, crowd), before)
    return 100 * etcd_s / idle_s, 100 * members_s / idle_s / nodes


def costs(server: EtcdServer, crowd: list[Child]) -> tuple[float, float]:
    """Processor time so far: etcd's, and all members'."""
    return cpu_s(server.pid), sum(cpu_s(child.process.pid) for child in crowd)


def less(after: tuple[float, float], before: tuple[float, float]) -> tuple[float, float]:
    """What came between."""
    return after[0] - before[0], after[1] - before[1]


def cpu_s(pid: int) -> float:
    """Processor time so far."""
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def show(measured: list[Measured]) -> None:
    """One line a job size, medians over its repetitions."""
    print(
        f"{platform.machine()}, Python {platform.python_version()}, {PROCESSES} processes of members, etcd beside them;"
        " seconds, and processor seconds of etcd + members"
    )
    print(row("nodes", "runs", "active", "aim", "cpu", "next", "aim", "cpu", "idle: etcd %", "member %", "etcd MB"))
    for nodes in sorted({each.nodes for each in measured}):
        same = [each for each in measured if each.nodes == nodes]
        join_aim, next_aim = AIMS_S.get(nodes, (0.0, 0.0))
        print(
            row(
                *(str(nodes), str(len(same))),
                *(f"{median(same, 'join_s'):.3f}", f"{join_aim:.2f}", pair([each.join_cpu_s for each in same])),
                *(f"{median(same, 'next_s'):.3f}", f"{next_aim:.2f}", pair([each.next_cpu_s for each in same])),
                f"{median(same, 'etcd_percent'):.2f}",
                f"{median(same, 'member_percent'):.3f}",
                f"{median(same, 'etcd_mb'):.0f}",
            )
        )


def row(*cells: str) -> str:
    """Columns."""
    widths = (6, 5, 8, 6, 13, 8, 6, 13, 13, 9, 8)
    return " ".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))


def median(same: list[Measured], name: str) -> float:
    """Of one number over the repetitions."""
    return float(statistics.median(getattr(each, name) for each in same))


def pair(costs_s: list[tuple[float, float]]) -> str:
    """Processor time of etcd and of the members, medians."""
    return " + ".join(f"{statistics.median(column):.2f}" for column in zip(*costs_s, strict=True))


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="*", default=sorted(AIMS_S))
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--idle-seconds", type=float, default=20.0)
    parser.add_argument("--lease-seconds", type=float, default=6.0, help="more on a machine that is busy otherwise")
    options = parser.parse_args()
    measured = []
    for _ in range(options.repetitions):
        for nodes in options.nodes:
            with tempfile.TemporaryDirectory(prefix="elasticjob-bench-") as folder:
                server = asyncio.run(EtcdServer.start(Path(folder) / "etcd", timeout_s=30))
                try:
                    measured.append(one_job(server, nodes, options.idle_seconds, options.lease_seconds))
                finally:
                    server.kill()
    show(measured)


if __name__ == "__main__":
    main()

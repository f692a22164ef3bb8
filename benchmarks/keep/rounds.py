"""`python -m benchmarks.keep.rounds`: rounds of 8 nodes with Keep and without it, and etcd's writes in between.

Both jobs run at the same time, each with an etcd of its own, and their workers fail in turns. A worker publishes the
whole state (`step-<N>` at each node) every tenth of a second, and a round restores it. So each node has the step here.
A round takes from the worker's exit to the start of the last worker of the next round.
"""

import argparse
import contextlib
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.keep.keepers import MEMORY
from benchmarks.report import etcds, results
from benchmarks.report.etcds import Server
from benchmarks.report.results import OURS, Report, Series
from elasticjob_api import constants
from testing.processes.fleet import Fleet
from testing.waiting import eventually

GROUP = "keep"
_DIFFERENCE_TARGET_S = 0.005
_LONGEST_S = 60.0
_PAUSE_S = 1.0
"""Seconds between two turns: nodes look for their peers after the start of a round, and not in the next turn."""
_WORKER = Path(__file__).with_name("publishing_worker.py")


@dataclass
class MeasuredJob:
    """One job of some nodes."""

    fleet: Fleet
    server: Server
    nodes: int
    took_s: list[float] = field(default_factory=list)
    restored: list[bool] = field(default_factory=list)
    """Whether all workers of a round had restored a step."""
    round: int = 1

    def begin(self) -> None:
        """Start all nodes."""
        for _ in range(self.nodes):
            self.fleet.start_agent(sys.executable, "-S", str(_WORKER), str(self.fleet.trace), str(self.fleet.orders))
        self.fleet.await_round(1, self.nodes, _LONGEST_S)

    def fail(self) -> None:
        """Let one worker fail, and time the next round."""
        eventually(self._has_published, within_s=_LONGEST_S, what="a published step", pause_s=0.05)
        self.fleet.fail(self.round % self.nodes)
        self.round += 1
        ends_us = self.fleet.await_round(self.round, self.nodes, _LONGEST_S)
        (exits,) = (p for p in self.fleet.points() if p["point"] == "exits" and p["round"] == self.round - 1)
        self.took_s.append((ends_us - int(exits["t_us"])) / 1e6)
        self.restored.append(all(point["restored"] for point in self.fleet.running(self.round)))

    def _has_published(self) -> bool:
        points = [p for p in self.fleet.points() if p["round"] == self.round and p["point"] == "published"]
        return len({point["rank"] for point in points}) == self.nodes

    def writes(self) -> int:
        """Return the number of transactions that its etcd has got so far."""
        return etcds.messages(self.server)["Txn"]


@contextlib.contextmanager
def job(nodes: int, *, keeps: bool) -> Iterator[MeasuredJob]:
    """Yield a job that is not started yet; `keeps`: its nodes keep steps."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(etcds.etcd())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="keep-rounds-")))
        memory = stack.enter_context(tempfile.TemporaryDirectory(prefix="keep-rounds-", dir=MEMORY))
        # Each round ends at once, which the agent takes for a failure of the start.
        fleet = Fleet(server.endpoint.targets[0], folder, str(nodes), 1, max_restarts=10_000, conf="backoff=0")
        fleet.environment = {constants.ENV_KEEP_DIR: memory, constants.ENV_KEEP_SIZE_LIMIT: "64Mi"} if keeps else {}
        stack.callback(fleet.stop)
        yield MeasuredJob(fleet, server, nodes)


def measure(options: argparse.Namespace, report: Report) -> None:
    """Fail workers of both jobs in turns; then count writes while nothing fails."""
    with job(options.nodes, keeps=True) as keeping, job(options.nodes, keeps=False) as plain:
        for each in (keeping, plain):
            each.begin()
        for _ in range(options.repetitions):
            for each in (keeping, plain):
                time.sleep(_PAUSE_S)
                with results.attempt(report, "a round"):
                    each.fail()
        writes = steady_writes([keeping, plain], options.steady)
    if not all(keeping.restored):
        raise AssertionError(f"only {sum(keeping.restored)} of {len(keeping.restored)} rounds restored a step")
    name, size = "next round after a failure", options.nodes
    more_s = results.percentile(keeping.took_s, 0.5) - results.percentile(plain.took_s, 0.5)
    report.series = [
        Series(GROUP, f"{name}, with Keep", OURS, tuple(keeping.took_s), size=size),
        Series(GROUP, f"{name}, without Keep", OURS, tuple(plain.took_s), size=size),
        Series(GROUP, f"{name}: Keep adds to the median", OURS, (more_s,), target=_DIFFERENCE_TARGET_S, size=size),
        Series(GROUP, "etcd's writes a second while training publishes", OURS, (writes[0],), "/s", target=0.0),
        Series(GROUP, "etcd's writes a second without Keep", OURS, (writes[1],), "/s"),
    ]


def steady_writes(jobs: list[MeasuredJob], seconds: float) -> list[float]:
    """Return the writes a second of each job while nothing happens."""
    time.sleep(seconds)  # reports of the last round
    before = [each.writes() for each in jobs]
    time.sleep(seconds)
    return [(each.writes() - old) / seconds for each, old in zip(jobs, before, strict=True)]


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=40)
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--steady", type=float, default=15.0, help="seconds for which writes are counted")
    parser.add_argument("--quick", action="store_true", help="two repetitions with 3 nodes: does every piece work?")
    parser.add_argument("--json", type=Path, help="keep all samples there")
    options = parser.parse_args()
    if options.quick:
        options.repetitions, options.nodes, options.steady = 2, 3, 5.0
    report = results.begin(etcd=etcds.version())
    with results.keep(report, options.json):
        measure(options, report)
        print(results.table(report.series))


if __name__ == "__main__":
    main()

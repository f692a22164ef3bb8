"""`make bench-recovery`: start, worker failure, node leaves, node lost, node joins; with a trace of each.

Prints for each scenario the time from the event to the moment at which the last worker of the next round runs
(p50 and the extremes over the repetitions), and of one repetition every trace point with microseconds. The
workers are trivial Python programs; what they need to start is part of each number.
"""

import argparse
import asyncio
import platform
import signal
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from elasticjob_etcd.server import EtcdServer
from tests.faults.fleet import Fleet, fleet


@dataclass(frozen=True)
class Run:
    """One repetition: µs from the event to the next round, and the trace between them."""

    took_us: int
    trace: list[tuple[int, str]]


def start_2x2(endpoint: str, folder: Path) -> Run:
    """Commands → all workers running, 2 nodes x 2 workers."""
    with fleet(endpoint, folder, "2", 2) as job:
        begin_us = now_us()
        job.start_agent()
        job.start_agent()
        return finished(job, begin_us, job.await_round(1, 4))


def worker_exits(endpoint: str, folder: Path) -> Run:
    """Worker exits 1 → all workers of the next round running, 3 x 1."""
    with fleet(endpoint, folder, "3", 1) as job:
        job.start_agents(3)
        job.fail(1)
        end_us = job.await_round(2, 3)
        begin_us = next(int(p["t_us"]) for p in job.points() if p["point"] == "exits")
        return finished(job, begin_us, end_us)


def agent_leaves(endpoint: str, folder: Path) -> Run:
    """Agent SIGTERMed → survivors' next round running, 2:3 x 1."""
    return after_signal(endpoint, folder, signal.SIGTERM)


def agent_killed(endpoint: str, folder: Path) -> Run:
    """Agent SIGKILLed → survivors' next round running, 2:3 x 1 (by the lease alone: the link is not there yet)."""
    return after_signal(endpoint, folder, signal.SIGKILL)


def after_signal(endpoint: str, folder: Path, number: signal.Signals) -> Run:
    """Send `number` to the last of three agents."""
    with fleet(endpoint, folder, "2:3", 1) as job:
        job.start_agents(3)
        begin_us = now_us()
        job.agents[-1].send_signal(number)
        return finished(job, begin_us, job.await_round(2, 2))


def agent_joins(endpoint: str, folder: Path) -> Run:
    """Command of a third agent, which fills `max` → next round running, 2:3 x 1."""
    with fleet(endpoint, folder, "2:3", 1) as job:
        job.start_agents(2)
        begin_us = now_us()
        job.start_agent()
        return finished(job, begin_us, job.await_round(2, 3))


SCENARIOS: dict[str, tuple[Callable[[str, Path], Run], float]] = {
    "start 2x2": (start_2x2, 0.4),
    "worker exits 1, 3x1": (worker_exits, 0.15),
    "agent SIGTERMed": (agent_leaves, 0.2),
    "agent joins": (agent_joins, 0.3),
    "agent SIGKILLed": (agent_killed, 1.0),
}


def finished(job: Fleet, begin_us: int, end_us: int) -> Run:
    """The trace from the event to the end."""
    points = [p for p in job.points() if begin_us <= int(p["t_us"]) <= end_us]
    named = [(int(p["t_us"]) - begin_us, f"{p['agent']} round {p['round']}: {p['point']}") for p in points]
    return Run(end_us - begin_us, named)


def now_us() -> int:
    """The wall clock, as the trace has it."""
    return time.time_ns() // 1000


async def measure(repetitions: int, only: str | None) -> None:
    """All scenarios, interleaved so that a busy moment of the machine hits all of them."""
    chosen = {name: what for name, what in SCENARIOS.items() if only is None or only in name}
    runs: dict[str, list[Run]] = {name: [] for name in chosen}
    with tempfile.TemporaryDirectory(prefix="elasticjob-bench-") as folder:
        server = await EtcdServer.start(Path(folder) / "etcd")
        try:
            for _ in range(repetitions):
                for name, (scenario, _) in chosen.items():
                    runs[name].append(await asyncio.to_thread(scenario, server.endpoint.targets[0], Path(folder)))
        finally:
            await server.stop()
    show(chosen, runs)


def show(chosen: dict[str, tuple[Callable[[str, Path], Run], float]], runs: dict[str, list[Run]]) -> None:
    """A table, and of each scenario the trace of its median repetition."""
    count = len(next(iter(runs.values())))
    print(f"{platform.machine()}, Python {platform.python_version()}, {count} repetitions; seconds")
    print(f"{'scenario':<22} {'p50':>8} {'min':>8} {'max':>8} {'target':>8}")
    for name, (_, target_s) in chosen.items():
        took = [run.took_us / 1e6 for run in runs[name]]
        print(f"{name:<22} {statistics.median(took):8.3f} {min(took):8.3f} {max(took):8.3f} {target_s:8.2f}")
    for name in chosen:
        middle = sorted(runs[name], key=lambda run: run.took_us)[len(runs[name]) // 2]
        print(f"\n{name}: trace of the median repetition (µs since the event)")
        for at_us, what in middle.trace:
            print(f"{at_us:>10} {what}")


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--only", help="only scenarios whose name contains this")
    options = parser.parse_args()
    asyncio.run(measure(options.repetitions, options.only))


if __name__ == "__main__":
    main()

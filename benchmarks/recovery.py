"""`make bench-recovery`: start, worker failure, node leaves, node lost, node joins; beside torchrun, if it is there.

Prints for each scenario the time from the event to the moment at which the last worker of the next round runs
(p50 and the extremes over the repetitions), what an idle agent costs, and of one repetition every trace point with
microseconds. The workers are trivial Python programs; what they need to start is part of each number. Ours and
torchrun's repetitions are interleaved, so that a busy moment of the machine hits both.
"""

import argparse
import asyncio
import platform
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.recovery_idle import Idle, idle_agent
from benchmarks.recovery_scenarios import SCENARIOS, Run, Scenario
from benchmarks.recovery_torchrun import LONGEST_S, torch_python
from elasticjob_etcd.server import EtcdServer

Runs = dict[str, list[Run]]


async def measure(scenarios: Sequence[Scenario], options: argparse.Namespace) -> None:
    """All scenarios, and what an idle agent costs."""
    ours: Runs = {scenario.name: [] for scenario in scenarios}
    theirs: Runs = {scenario.name: [] for scenario in scenarios}
    python = None if options.without_torchrun else torch_python()
    with tempfile.TemporaryDirectory(prefix="elasticjob-bench-") as folder:
        server = await EtcdServer.start(Path(folder) / "etcd")
        endpoint = server.endpoint.targets[0]
        try:
            for turn in range(options.repetitions):
                for scenario in scenarios:
                    if turn == 0 or not scenario.once:
                        ours[scenario.name].append(await asyncio.to_thread(scenario.ours, endpoint, Path(folder)))
                    if python and scenario.theirs and turn < options.torchrun_repetitions:
                        theirs[scenario.name].append(await asyncio.to_thread(scenario.theirs, python, Path(folder)))
            idle = None if options.only else await asyncio.to_thread(idle_agent, endpoint, Path(folder))
        finally:
            await server.stop()
    show(scenarios, ours, theirs, idle)
    if not python:
        print("\ntorchrun was not measured: hack/torch-venv installs it (4.7 GB)")


def show(scenarios: Sequence[Scenario], ours: Runs, theirs: Runs, idle: Idle | None) -> None:
    """A table, and of each scenario the trace of its median repetition."""
    print(f"{platform.machine()}, Python {platform.python_version()}; seconds")
    print(f"{'scenario':<24} {'runs':>5} {'p50':>8} {'min':>8} {'max':>8} {'aim':>8}")
    for scenario in scenarios:
        print(row(scenario.name, ours[scenario.name], f"{scenario.target_s:8.2f}"))
        if theirs[scenario.name]:
            print(row("  torchrun", theirs[scenario.name], ""))
    if idle is not None:
        print(f"\nidle agent: {idle.cpu_percent:.2f} % of a core (aim 0.1)")
        print(f"            {idle.rss_mb:.0f} MB resident (aim 60), {idle.unique_mb:.0f} MB of them its own")
    for scenario in scenarios:
        done = [run for run in ours[scenario.name] if run.took_us is not None]
        middle = sorted(done, key=lambda run: run.took_us or 0)[len(done) // 2]
        print(f"\n{scenario.name}: trace of the median repetition (µs since the event)")
        for at_us, what in middle.trace:
            print(f"{at_us:>10} {what}")


def row(name: str, runs: list[Run], aim: str) -> str:
    """One line; a scenario that did not end counts as endless."""
    took = [float("inf") if run.took_us is None else run.took_us / 1e6 for run in runs]
    cells = " ".join(seconds(value) for value in (statistics.median(took), min(took), max(took)))
    return f"{name:<24} {len(runs):>5} {cells} {aim}"


def seconds(value: float) -> str:
    """Eight columns."""
    return f"{value:8.3f}" if value < float("inf") else f" > {LONGEST_S:.0f} s"


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--torchrun-repetitions", type=int, default=3)
    parser.add_argument("--without-torchrun", action="store_true")
    parser.add_argument("--only", help="only scenarios whose name contains this")
    options = parser.parse_args()
    chosen = [scenario for scenario in SCENARIOS if options.only is None or options.only in scenario.name]
    asyncio.run(measure(chosen, options))


if __name__ == "__main__":
    main()

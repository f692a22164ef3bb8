"""`make bench-recovery`: start, worker failure, node leaves, node lost, node joins; beside torchrun, if it is there.

Prints for each scenario the time from the event to the moment at which the last worker of the next round runs (p50
and p99 of all repetitions), what an idle agent costs, and of the repetition in the middle where its time went, with
every trace point. The workers are trivial Python programs; what they need to start is part of each number. Ours and
torchrun's repetitions are interleaved, so that a busy moment of the machine hits both.
"""

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks import etcds, results
from benchmarks.etcds import Server
from benchmarks.recovery_idle import Idle, idle_agent
from benchmarks.recovery_scenarios import SCENARIOS, Run, Scenario
from benchmarks.recovery_torchrun import torch_python, torch_version
from benchmarks.results import OURS, Series
from elasticjob_agent import timeline

GROUP = "recovery"
TORCHRUN = "torchrun c10d"
_IDLE = (
    ("processor", "%", 0.1),
    ("memory, resident", "MB", 60.0),
    ("memory, its own", "MB", None),
    ("messages to etcd", "/s", 0.5),
)

Runs = dict[tuple[str, str], list[Run]]
"""By scenario and side."""


def measure(server: Server, scenarios: Sequence[Scenario], python: str | None, options: argparse.Namespace) -> Runs:
    """All scenarios in turn, as often as asked for."""
    runs: Runs = {}
    endpoint = server.endpoint.targets[0]
    for turn in range(max(options.repetitions, options.torchrun_repetitions)):
        for scenario in scenarios:
            if turn < (1 if scenario.once else options.repetitions):
                runs.setdefault((scenario.name, OURS), []).extend(scenario.ours(endpoint, server.folder))
            if python and scenario.theirs and turn < options.torchrun_repetitions:
                run = scenario.theirs(python, server.folder, options.longest)
                runs.setdefault((scenario.name, TORCHRUN), []).append(run)
        print(f"repetition {turn + 1} done", file=sys.stderr)
    return runs


def series_of(scenarios: Sequence[Scenario], runs: Runs) -> list[Series]:
    """A row a scenario and side."""
    return [
        Series(GROUP, scenario.name, side, _seconds(done), target=scenario.target_s if side == OURS else None)
        for scenario in scenarios
        for side in (OURS, TORCHRUN)
        if (done := runs.get((scenario.name, side)))
    ]


def _seconds(runs: Sequence[Run]) -> tuple[float, ...]:
    return tuple(math.inf if run.took_us is None else run.took_us / 1e6 for run in runs)


def idle_series(idle: Idle) -> list[Series]:
    """What an idle agent costs, its starter with it."""
    values = (idle.cpu_percent, idle.rss_mb, idle.unique_mb, idle.etcd_messages_s)
    return [
        Series("idle", f"an idle agent: {name}", OURS, (value,), unit, target)
        for (name, unit, target), value in zip(_IDLE, values, strict=True)
    ]


def traces(scenarios: Sequence[Scenario], runs: Runs, *, points: bool) -> dict[str, str]:
    """Where the time of each scenario's repetition in the middle went; with every trace point, if asked for."""
    found: dict[str, str] = {}
    for scenario in scenarios:
        done = sorted(runs[scenario.name, OURS], key=lambda run: run.took_us or math.inf)
        middle = done[len(done) // 2]
        assert middle.trace is not None
        traced = timeline.read(middle.trace.read_text().splitlines())
        recovery = next(each for each in timeline.recoveries(traced) if each.round == middle.round)
        found[scenario.name] = f"{scenario.name}; {timeline.show(recovery, points=points)}"
    return found


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--torchrun-repetitions", type=int, default=3)
    parser.add_argument("--longest", type=float, default=40.0, help="seconds after which torchrun counts as never")
    parser.add_argument("--without-torchrun", action="store_true")
    parser.add_argument("--without-saving", action="store_true", help="not the one whose workers save for 20 s")
    parser.add_argument("--only", default="", help="only scenarios whose name contains this")
    parser.add_argument("--json", type=Path, help="keep all samples there")
    options = parser.parse_args()
    chosen = [scenario for scenario in SCENARIOS if options.only in scenario.name]
    scenarios = [scenario for scenario in chosen if not (scenario.once and options.without_saving)]
    python = None if options.without_torchrun else torch_python()
    report = results.begin(etcd=etcds.version(), torch=torch_version(python))
    with etcds.etcd() as server:
        runs = measure(server, scenarios, python, options)
        report.series = series_of(scenarios, runs)
        if not options.only:
            report.series += idle_series(idle_agent(server))
        print("\n".join(f"{name}: {value}" for name, value in report.machine.items()), end="\n\n")
        print(results.table(report.series))
        print("", *traces(scenarios, runs, points=True).values(), sep="\n\n")
        report.notes = traces(scenarios, runs, points=False)
    if options.json:
        report.save(options.json)
    if not python:
        print("\ntorchrun was not measured: hack/torch-venv installs it (4.7 GB)")


if __name__ == "__main__":
    main()

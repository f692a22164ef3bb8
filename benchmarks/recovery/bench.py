"""`make bench-recovery`: start, worker failure, node leaves, node lost, node joins; beside torchrun, if it is there.

Prints for each scenario the time from the event to the start of the last worker of the next round: p50 and p99.
It also prints the cost of an idle agent. For the repetition in the middle it prints every trace point. The
workers are trivial Python programs; their start is part of each number. Repetitions of ours and torchrun's alternate,
so that a busy moment of the machine affects both.
"""

import argparse
import functools
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from benchmarks.recovery.idle import idle_series
from benchmarks.recovery.scenarios import SCENARIOS, Run, Scenario
from benchmarks.recovery.torchrun import TORCHRUN, torch_python, torch_version
from benchmarks.report import etcds, results
from benchmarks.report.etcds import Server
from benchmarks.report.results import OURS, Report, Series
from elasticjob_cli import recovery_timeline

GROUP = "recovery"

Runs = dict[tuple[str, str], list[Run]]
"""By scenario and side."""


def measure(
    server: Server, scenarios: Sequence[Scenario], python: str | None, *, options: argparse.Namespace, report: Report
) -> Runs:
    """Run all scenarios in turn, as often as requested; failures are noted in the report."""
    runs: Runs = {}
    try:
        for turn in range(max(options.repetitions, options.torchrun_repetitions)):
            for scenario in scenarios:
                for side, run in _sides(server, scenario, python, turn, options):
                    with results.attempt(report, f"{scenario.name}, {side}, repetition {turn + 1}"):
                        runs.setdefault((scenario.name, side), []).extend(run())
            print(f"repetition {turn + 1} done", file=sys.stderr)
    finally:
        report.series = series_of(scenarios, runs)
    return runs


def _sides(
    server: Server, scenario: Scenario, python: str | None, turn: int, options: argparse.Namespace
) -> Iterator[tuple[str, Callable[[], Sequence[Run]]]]:
    """Yield the sides of this turn."""
    if turn < (1 if scenario.once else options.repetitions):
        yield OURS, functools.partial(scenario.ours, server.endpoint.targets[0], server.folder)
    if python and (theirs := scenario.theirs) and turn < options.torchrun_repetitions:
        yield TORCHRUN, lambda: [theirs(python, server.folder, options.longest)]


def series_of(scenarios: Sequence[Scenario], runs: Runs) -> list[Series]:
    """Return a series for each scenario and side."""
    return [
        Series(GROUP, scenario.name, side, _seconds(done), target=scenario.target_s if side == OURS else None)
        for scenario in scenarios
        for side in (OURS, TORCHRUN)
        if (done := runs.get((scenario.name, side)))
    ]


def _seconds(runs: Sequence[Run]) -> tuple[float, ...]:
    return tuple(math.inf if run.took_us is None else run.took_us / 1e6 for run in runs)


def traces(scenarios: Sequence[Scenario], runs: Runs, *, points: bool) -> dict[str, str]:
    """Return the trace of each scenario's repetition in the middle; on request with every trace point."""
    found: dict[str, str] = {}
    for scenario in scenarios:
        done = sorted(runs.get((scenario.name, OURS), []), key=lambda run: run.took_us or math.inf)
        middle = done[len(done) // 2] if done else None
        if middle is None or middle.trace is None:
            continue
        traced = recovery_timeline.read(middle.trace.read_text().splitlines())
        recovery = next(each for each in recovery_timeline.recoveries(traced) if each.round == middle.round)
        found[scenario.name] = f"{scenario.name}; {recovery_timeline.show(recovery, points=points)}"
    return found


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--torchrun-repetitions", type=int, default=3)
    parser.add_argument("--idle-repetitions", type=int, default=2, help="repetitions with two agents a side, 75 s each")
    parser.add_argument("--longest", type=float, default=40.0, help="seconds after which torchrun counts as never")
    parser.add_argument("--without-torchrun", action="store_true")
    parser.add_argument(
        "--without-saving", action="store_true", help="leave out the scenario whose workers save for 20 s"
    )
    parser.add_argument("--only", default="", help="only scenarios whose name contains this")
    parser.add_argument("--json", type=Path, help="keep all samples there")
    options = parser.parse_args()
    chosen = [scenario for scenario in SCENARIOS if options.only in scenario.name]
    scenarios = [scenario for scenario in chosen if not (scenario.once and options.without_saving)]
    python = None if options.without_torchrun else torch_python()
    report = results.begin(etcd=etcds.version(), torch=torch_version(python))
    report.machine["torchrun is waited for"] = f"{options.longest:g} s"
    with results.keep(report, options.json), etcds.etcd() as server:
        runs = measure(server, scenarios, python, options=options, report=report)
        if not options.only:
            report.series += idle_series(server, python, report=report, repetitions=options.idle_repetitions)
        print("\n".join(f"{name}: {value}" for name, value in report.machine.items()), end="\n\n")
        print(results.table(report.series))
        print("", *traces(scenarios, runs, points=True).values(), sep="\n\n")
        report.notes = traces(scenarios, runs, points=False)
    if not python:
        print("\ntorchrun was not measured: hack/torch-venv installs it (4.7 GB)")


if __name__ == "__main__":
    main()

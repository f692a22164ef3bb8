"""The operator over the number of jobs: a part of `make bench`.

`make bench-operator` measures one size, 1,000 jobs of ten pods. This part measures three smaller sizes, so that the
growth of each cost is visible. Each size has an API server, two etcds, an operator and simulated kubelets and agents.
The floor is a bare client loop that creates the same pods.
"""

import argparse
import tempfile
from pathlib import Path

from benchmarks.operator.bench import APPLY_AIM_S, CPU_AIM, MEMORY_AIM_MB, Bench, Scale
from benchmarks.operator.stack import OperatorProcess, stage, wait_until
from benchmarks.rendezvous.fits import power_laws
from benchmarks.report import etcds, results
from benchmarks.report.results import FLOOR, OURS, Report, Series

GROUP = "operator"
PODS, RUNNING, SPENT = "all pods Running", "all jobs Running", "until then: the operator's processor"
APPLIED, MEMORY = "one job more: applied → its pods created", "steady: memory"
PROCESSOR, WRITES = "steady: processor", "steady: API writes"
UNITS = {PODS: "s", RUNNING: "s", SPENT: "s", APPLIED: "s", MEMORY: "MB", PROCESSOR: "%", WRITES: "/s"}
TARGETS = {APPLIED: APPLY_AIM_S, MEMORY: MEMORY_AIM_MB, PROCESSOR: CPU_AIM}

Samples = dict[tuple[str, str, int], list[float]]
"""By name, side and number of jobs."""


def measure(options: argparse.Namespace, report: Report) -> None:
    """Measure every size once."""
    samples: Samples = {}
    try:
        for jobs in options.jobs:
            with results.attempt(report, f"{jobs} jobs"):
                one(Scale(jobs, options.pods), options.steady_seconds, samples)
    finally:
        report.series = series_of(samples)


def one(scale: Scale, steady_s: float, samples: Samples) -> None:
    """Create that many jobs, let them run, and apply some more."""

    def add(name: str, *values: float, side: str = OURS) -> None:
        samples.setdefault((name, side, scale.jobs), []).extend(values)

    with tempfile.TemporaryDirectory(prefix="elasticjob-bench-") as name, stage(Path(name)) as (server, etcd, cast):
        bench = Bench(server, cast, scale)
        add(PODS, bench.bare(scale.jobs), side=FLOOR)
        operator = OperatorProcess(server, etcd.endpoint.targets[0], Path(name))
        try:
            wait_until("the operator is ready", lambda: operator.answers("/readyz"), within_s=60.0)
            before_s = operator.cpu_s
            pods_s, running_s = bench.crowd(operator)
            add(PODS, pods_s)
            add(RUNNING, running_s)
            add(SPENT, operator.cpu_s - before_s)
            for kind, value in zip((MEMORY, PROCESSOR, WRITES), bench.steady(operator, steady_s), strict=True):
                add(kind, value)
            add(APPLIED, *bench.applied())
        finally:
            operator.stop()


def series_of(samples: Samples) -> list[Series]:
    """Return a row for each cost, side and size."""
    return [
        Series(GROUP, name, side, tuple(taken), unit, TARGETS.get(name) if side == OURS else None, jobs)
        for name, unit in UNITS.items()
        for (what, side, jobs), taken in sorted(samples.items(), key=lambda item: item[0][2])
        if what == name
    ]


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, nargs="*", default=[20, 60, 200])
    parser.add_argument("--pods", type=int, default=10)
    parser.add_argument("--steady-seconds", type=float, default=15.0)
    parser.add_argument("--json", type=Path, help="keep all samples there")
    options = parser.parse_args()
    report = results.begin(etcd=etcds.version())
    with results.keep(report, options.json):
        measure(options, report)
        print(results.table(report.series), *power_laws(report.series), sep="\n")


if __name__ == "__main__":
    main()

"""`make bench-noise`: the recovery of a job while another job on the same etcd fails ten times a second.

Job B has three agents, and its workers fail one after the other. The time is from a worker's end to the last worker of
the next round. Job A has agents of its own. Its workers report progress and exit 1 as soon as they run. So nothing
delays
them: a job that fails before any progress waits, and makes no noise. Three situations alternate: B alone; B
with A on another etcd, which only takes processor time from B; B with A on the same etcd. p50, p99, their ratios and
A's real failure rate are printed. In a cluster the two jobs have machines of their own and share only etcd. The ratio
same etcd : another etcd is the cost of A for B there.
"""

import argparse
import contextlib
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.recovery.scenarios import FAILURES, worker_exits
from benchmarks.report import etcds, results
from benchmarks.report.etcds import Server
from benchmarks.report.results import OURS, Series
from testing.processes.fleet import fleet
from testing.waiting import eventually

GROUP = "noise"
ALONE, ELSEWHERE, BESIDE = "alone", "a job that fails on another etcd", "a job that fails on the same etcd"
MOST_RATIO = 1.5
WARM = 5
"""Failures of A before B is measured."""
FAILS = """
printf '{"step": 1}\\n' > "$ELASTICJOB_PROGRESS"
echo "$ELASTICJOB_ROUND" >> "$0"
now=$(date +%s%N)
sleep $(printf '0.%03d' $(( PERIOD - now / 1000000 % PERIOD )))
exit 1
"""
"""Fails when the next period begins (PERIOD ms)."""


def repetition(server: Server) -> list[float]:
    """Return the seconds of each recovery of job B."""
    runs = worker_exits(server.endpoint.targets[0], server.folder)
    return [run.took_us / 1e6 for run in runs if run.took_us is not None]


@contextlib.contextmanager
def crash_loop(server: Server, nodes: int, period_s: float) -> Iterator[Path]:
    """Run job A; the file has a line for each round of each of its workers."""
    with fleet(server.endpoint.targets[0], server.folder, str(nodes), 1, max_restarts=10**6) as job:
        lives = server.folder / f"{job.run_id}.lives"
        script = FAILS.replace("PERIOD", str(round(period_s * 1000)))
        for _ in range(nodes):
            job.start_agent("sh", "-c", script, str(lives))
        eventually(lambda: failures(lives) >= WARM, what="a job that fails again and again")
        yield lives


def failures(lives: Path) -> int:
    """Return the rounds that A has run: each but the last ended by a failure."""
    return len(set(lives.read_text().split())) if lives.exists() else 0


def measure(same: Server, other: Server, options: argparse.Namespace) -> tuple[dict[str, list[float]], list[float]]:
    """Return the samples of each situation, taken in turns, and A's failures a second meanwhile."""
    samples: dict[str, list[float]] = {ALONE: [], ELSEWHERE: [], BESIDE: []}
    rates: list[float] = []
    for turn in range(options.repetitions):
        samples[ALONE] += repetition(same)
        for name, server in ((ELSEWHERE, other), (BESIDE, same)):
            with crash_loop(server, options.nodes, options.period) as lives:
                before, begin_s = failures(lives), time.monotonic()
                samples[name] += repetition(same)
                rates.append((failures(lives) - before) / (time.monotonic() - begin_s))
        print(f"repetition {turn + 1} done, A failed {rates[-1]:.1f} times a second", file=sys.stderr)
    return samples, rates


def ratios(series: Sequence[Series]) -> str:
    """Return the ratios of the times beside A to those alone, and beside an A that only shares processors."""
    alone, elsewhere, beside = series
    lines = [
        f"{what:34}  p50 {beside.p50 / base.p50:.2f}   p99 {beside.p99 / base.p99:.2f} (<= {MOST_RATIO})"
        for what, base in (("same etcd : alone", alone), ("same etcd : another etcd", elsewhere))
    ]
    return "\n".join(lines)


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=20, help=f"each has {FAILURES} samples of every situation")
    parser.add_argument("--nodes", type=int, default=1, help="nodes of job A")
    parser.add_argument("--period", type=float, default=0.09, help="seconds between two failures of job A")
    parser.add_argument("--json", type=Path, help="keep all samples there")
    options = parser.parse_args()
    report = results.begin(etcd=etcds.version())
    with etcds.etcd() as same, etcds.etcd() as other:
        samples, rates = measure(same, other, options)
    recoveries = [Series(GROUP, f"worker exits 1, 3x1, {name}", OURS, tuple(taken)) for name, taken in samples.items()]
    rate = Series(GROUP, "failures of the other job a second", OURS, tuple(rates), unit="/s")
    report.series = [*recoveries, rate]
    report.notes = {"ratios": ratios(recoveries)}
    print("\n".join(f"{key}: {value}" for key, value in report.machine.items()), end="\n\n")
    print(results.table(report.series), ratios(recoveries), sep="\n\n")
    if options.json:
        report.save(options.json)


if __name__ == "__main__":
    main()

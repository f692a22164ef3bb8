"""The cost of the pure parts at 100, 1,000 and 10,000 nodes: the leader's plan, a member's step for a new state.

Processor time of one call, so a busy machine changes little. It contains nothing of etcd or the network. With the
results of `make bench-rendezvous` it is the input of the simulation of more nodes than this machine can run
(`simulation.py`).
"""

import argparse
import gc
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.counts.calls import closer_plans, member_places
from benchmarks.rendezvous.fits import power_laws
from benchmarks.report import results
from benchmarks.report.results import OURS, Series

GROUP = "planning"
PLAN, PLACE = "a closer plans a round", "a member takes its place"
SIZES = (100, 1000, 10_000)
_ACTS: dict[str, Callable[[int], Callable[[], Any]]] = {PLAN: closer_plans, PLACE: member_places}


def once(run: Callable[[], Any]) -> float:
    """Return the processor seconds of one call."""
    gc.collect()
    begin_s = time.process_time()
    run()
    return time.process_time() - begin_s


def measure(repetitions: int) -> list[Series]:
    """Measure every act at every size; the first call, which fills caches, is not counted."""
    found = []
    for name, act in _ACTS.items():
        for size in SIZES:
            run = act(size)
            run()
            found.append(Series(GROUP, name, OURS, tuple(once(run) for _ in range(repetitions)), size=size))
    return found


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=10)
    parser.add_argument("--json", type=Path, help="keep all samples there")
    options = parser.parse_args()
    report = results.begin()
    with results.keep(report, options.json):
        report.series = measure(options.repetitions)
    print(results.table(report.series), *power_laws(report.series), sep="\n")


if __name__ == "__main__":
    main()

"""`python -m benchmarks.keep.fan_out`: one node has a step of 8 MiB, and many new nodes fetch it at the same time.

A holder serves four at once and names those that have just got it, so the copies spread. All keepers are on this
machine, so its processors bound the result.
"""

import argparse
import asyncio
from pathlib import Path

from benchmarks.keep.keepers import MIB, draft_of, time_until, timed_group
from benchmarks.report import results
from benchmarks.report.results import OURS, Report, Series

GROUP = "keep"


async def fetch_all(fetchers: int, size: int) -> list[float]:
    """Return how many seconds each of so many new nodes takes to have the step."""
    async with timed_group() as group:
        first = await group.add(0)
        await group.round(first)
        draft_of(first, "state", size).rename(first.incoming / "step-1")
        await time_until(lambda: group.step(1, 1) in first.client.holdings)
        others = [await group.add(slot) for slot in range(1, fetchers + 1)]
        await group.begin(first, *others)
        assert all(node.kept is not None for node in others)
        return [group.restored_s[node] for node in others]


def measure(options: argparse.Namespace, report: Report) -> None:
    """Measure each number of nodes; failures are noted in the report."""
    for fetchers in options.nodes:
        with results.attempt(report, f"{fetchers} nodes fetch"):
            took_s = [max(asyncio.run(fetch_all(fetchers, options.size * MIB))) for _ in range(options.repetitions)]
            name = f"{options.size} MiB of one node fetched by all new ones"
            report.series.append(Series(GROUP, name, OURS, tuple(took_s), size=fetchers))


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="*", default=[1, 4, 16, 48], help="new nodes")
    parser.add_argument("--size", type=int, default=8, help="MiB of the step")
    parser.add_argument("--repetitions", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="one and four nodes: does every piece work?")
    parser.add_argument("--json", type=Path, help="keep all samples there")
    options = parser.parse_args()
    if options.quick:
        options.nodes, options.repetitions = [1, 4], 1
    report = results.begin()
    with results.keep(report, options.json):
        measure(options, report)
        print(results.table(report.series))


if __name__ == "__main__":
    main()

"""`python -m benchmarks.keep.memory`: the most bytes that a node holds, beside (3 + 2 · copies) parts and one more.

Each node publishes one part after the other, faster than copies are made. The volume is measured all the time; the part
that the script is writing counts, too. The unit is one part.
"""

import argparse
import asyncio
import contextlib
import functools
from pathlib import Path

from benchmarks.keep.keepers import MIB, TimedGroup, draft_of, time_until, timed_group
from benchmarks.report import results
from benchmarks.report.results import OURS, Report, Series
from tests.integration.keep.keeper_group import GroupNode

GROUP = "keep"
_LOOK_S = 0.005
_RECORDS = 0.05
"""Manifests and other small files of a volume, in parts."""


async def peak_parts(copies: int, steps: int, size: int) -> tuple[float, int]:
    """Return the largest volume of any node, in parts, and how many steps its node skipped."""
    # A copy of a part takes as long as three steps, so each node skips steps.
    async with timed_group(copies=copies, bandwidth=copies * size * 4) as group:
        nodes = [await group.add(slot) for slot in range(copies + 1)]
        await group.round(*nodes)
        peaks: dict[GroupNode, int] = {}
        watch = asyncio.create_task(_watch(nodes, peaks))
        for number in range(1, steps + 1):
            await _publish(group, number, size)
        watch.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watch
        return max(peaks.values()) / size, max(node.client.progress.skipped for node in nodes)


async def _publish(group: TimedGroup, number: int, size: int) -> None:
    drafts = [(node, await asyncio.to_thread(draft_of, node, str(number), size)) for node in group.members]
    for rank, (node, draft) in enumerate(drafts):
        name = node.incoming / f"step-{number}.{rank}-of-{len(drafts)}"
        draft.rename(name)
        await time_until(functools.partial(_is_gone, name))


def _is_gone(path: Path) -> bool:
    return not path.exists()


async def _watch(nodes: list[GroupNode], peaks: dict[GroupNode, int]) -> None:
    while True:
        for node in nodes:
            peaks[node] = max(peaks.get(node, 0), await asyncio.to_thread(_bytes_below, node.volume))
        await asyncio.sleep(_LOOK_S)


def _bytes_below(folder: Path) -> int:
    """Return the bytes of all files below a folder; a file with several links counts once."""
    sizes: dict[int, int] = {}
    with contextlib.suppress(FileNotFoundError):
        for path in folder.rglob("*"):
            with contextlib.suppress(FileNotFoundError):
                found = path.stat()
                sizes[found.st_ino] = found.st_blocks * 512
    return sum(sizes.values())


def measure(options: argparse.Namespace, report: Report) -> None:
    """Measure each number of copies; failures are noted in the report."""
    for copies in options.copies:
        name = f"most parts in the memory of a node, {copies} {'copy' if copies == 1 else 'copies'}"
        with results.attempt(report, name):
            parts, skipped = asyncio.run(peak_parts(copies, options.steps, options.size * MIB))
            report.series.append(Series(GROUP, name, OURS, (parts,), "parts", target=3 + 2 * copies + 1 + _RECORDS))
            print(f"{name}: {parts:.2f}, {skipped} steps were skipped")


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--copies", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--size", type=int, default=32, help="MiB of a part")
    parser.add_argument("--quick", action="store_true", help="one copy of 12 steps: does every piece work?")
    parser.add_argument("--json", type=Path, help="keep all samples there")
    options = parser.parse_args()
    if options.quick:
        options.copies, options.steps = [1], 12
    report = results.begin()
    with results.keep(report, options.json):
        measure(options, report)
        print(results.table(report.series))


if __name__ == "__main__":
    main()

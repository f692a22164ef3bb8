"""`python -m benchmarks.keep.memory`: the most bytes that a node holds, beside (3 + 2 · copies) parts and one more.

Each node publishes one part after the other, faster than copies are made. It begins with the next one when the keeper
has taken the last one and dropped what that supersedes. The volume is measured all the time, each time with a stopped
keeper: so no file is counted at two places of its way. The part that the script is writing counts, too. So does a file
that was deleted while a transfer reads it. The unit is one part.
"""

import argparse
import asyncio
import contextlib
import functools
import itertools
import os
import signal
from collections.abc import Iterator
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
        await node.client.status()  # the keeper answers after it has dropped what is superseded


def _is_gone(path: Path) -> bool:
    return not path.exists()


async def _watch(nodes: list[GroupNode], peaks: dict[GroupNode, int]) -> None:
    while True:
        for node in nodes:
            peaks[node] = max(peaks.get(node, 0), await asyncio.to_thread(_bytes_of, node))
        await asyncio.sleep(_LOOK_S)


def _bytes_of(node: GroupNode) -> int:
    """Return the bytes of all files of a node at one moment; a file with several links counts once."""
    if (pid := node.client.pid) is None:
        return 0
    node.kill(signal.SIGSTOP)
    try:
        return sum(dict(_files(node.volume, Path("/proc", str(pid), "fd"))).values())
    finally:
        node.kill(signal.SIGCONT)


def _files(volume: Path, descriptors: Path) -> Iterator[tuple[int, int]]:
    """Yield the number and the bytes of each file of a volume, and of each that its keeper has open."""
    device = volume.stat().st_dev
    inside = (Path(folder, name) for folder, _, names in os.walk(volume) for name in names)  # it passes over what went
    for path in itertools.chain(inside, descriptors.iterdir()):
        with contextlib.suppress(FileNotFoundError):
            found = path.stat()
            if found.st_dev == device:
                yield found.st_ino, found.st_blocks * 512


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

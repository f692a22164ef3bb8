"""`python -m benchmarks.keep.pause`: how long a training's thread saves 512 MiB, on disk, in memory, and into Keep.

The forms take turns in one process with torch. Nothing waits for the disk (`fsync`), which is to the benefit of the
forms on disk. Publishing is the same write, and a rename. A real keeper takes each step, without peers.
"""

import argparse
import asyncio
import json
import subprocess
import tempfile
from collections import defaultdict
from pathlib import Path

from benchmarks.keep.keepers import MEMORY, timed_group
from benchmarks.recovery.torchrun import torch_python, torch_version
from benchmarks.report import results
from benchmarks.report.results import OURS, Report, Series

GROUP = "keep"
_PROGRAM = Path(__file__).with_name("torch_pause.py")


async def measure(python: str, options: argparse.Namespace, report: Report) -> None:
    """Run the program beside a keeper, and collect its samples."""
    samples: dict[str, list[float]] = defaultdict(list)
    async with timed_group() as group:
        node = await group.add(0)
        await group.round(node)
        with (
            tempfile.TemporaryDirectory(prefix="keep-pause-") as disk,
            tempfile.TemporaryDirectory(prefix="keep-pause-", dir=MEMORY) as memory,
        ):
            words = [str(options.size), disk, memory, str(node.incoming), str(options.repetitions)]
            output = await asyncio.to_thread(_output, [python, str(_PROGRAM), *words])
        for line in output.splitlines():
            for name, seconds in json.loads(line).items():
                samples[name].append(seconds)
        taken = await node.client.status()
    if taken.taken != 2 * options.repetitions:
        raise AssertionError(f"{taken.taken} steps were taken, not {2 * options.repetitions}")
    memory_s = results.percentile(samples["torch.save to memory"], 0.5)
    report.series = [
        Series(GROUP, f"{options.size} MiB saved by one thread: {name}", OURS, tuple(values),
               target=1.2 * memory_s if name == "torch.save into Keep" and not options.quick else None)
        for name, values in samples.items()
    ]  # fmt: skip


def _output(command: list[str]) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--size", type=int, default=512, help="MiB of the state")
    parser.add_argument("--quick", action="store_true", help="one turn with 32 MiB: does every piece work?")
    parser.add_argument("--json", type=Path, help="keep all samples there")
    options = parser.parse_args()
    if options.quick:
        options.repetitions, options.size = 1, 32
    python = torch_python()
    if python is None:
        print("not measured: hack/torch-venv installs torch (4.7 GB), which this needs")
        return
    report = results.begin(torch=torch_version(python))
    with results.keep(report, options.json):
        asyncio.run(measure(python, options, report))
        print(results.table(report.series))


if __name__ == "__main__":
    main()

"""The first start of a node with torch: each worker does its imports, or all share those that another node recorded.

    python -m benchmarks.processes.first_start [--workers 8] [--repetitions 5]

The sides take turns. The time ends when the last worker has its imports done. One worker alone is beside them.
"""

import argparse
import asyncio
import os
import struct
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.processes.bench import python_with_torch
from benchmarks.report import results
from benchmarks.report.results import Report, Series
from elasticjob_agent.supervisor import Child, Command, FileSink, Supervisor
from elasticjob_agent.warm_start.profiles import Profiles
from elasticjob_agent.warm_start.warm_starter import WarmStart
from testing.waiting import aeventually

_SCRIPT = """
import os, struct, sys, time
import torch, torch.distributed, torch._dynamo
with open(sys.argv[1] + "/imported-" + os.environ["RANK"], "wb") as file:
    file.write(struct.pack("d", time.monotonic()))
time.sleep(3600)
"""
_VARYING = ("RANK",)
_START_S = 180.0
_GOAL = 1.3
"""Times one worker alone, for all."""


class _Store:
    """A profile in this process."""

    def __init__(self) -> None:
        self.data: bytes | None = None

    async def load(self) -> tuple[bytes | None, int]:
        """Return the profile, which has no revision."""
        return self.data, 0

    async def save(self, data: bytes, revision: int) -> bool:
        """Replace the profile; there is one writer."""
        del revision
        self.data = data
        return True


class Node:
    """Starts rounds of a script that only imports, in a folder of its own."""

    def __init__(self, supervisor: Supervisor, python: str, folder: Path) -> None:
        self.supervisor = supervisor
        self.store = _Store()
        self._folder = folder
        self._script = folder / "train.py"
        self._script.write_text(_SCRIPT)
        self._python = python

    def starter(self) -> WarmStart:
        """Return the starter of an agent that has just started."""
        return WarmStart(self.supervisor, varying=_VARYING, output=lambda _: None, profiles=Profiles(self.store))

    async def took_s(self, starter: WarmStart | Supervisor, workers: int) -> float:
        """Return the seconds until all workers have their imports done; they are killed then."""
        for file in self._folder.glob("imported-*"):
            file.unlink()
        began_s = time.monotonic()
        children = await starter.spawn([self._command(rank) for rank in range(workers)])
        imported_s = await self._last_import(workers)
        if isinstance(starter, WarmStart) and self.store.data is None:
            await aeventually(lambda: self.store.data is not None, within_s=_START_S, what="a profile")
        await self._end(starter, children)
        return imported_s - began_s

    async def _last_import(self, workers: int) -> float:
        files = [self._folder / f"imported-{rank}" for rank in range(workers)]
        await aeventually(lambda: all(file.exists() and file.stat().st_size for file in files), within_s=_START_S)
        return max(float(struct.unpack("d", file.read_bytes())[0]) for file in files)

    async def _end(self, starter: WarmStart | Supervisor, children: Sequence[Child]) -> None:
        await self.supervisor.stop(children, grace_s=0)
        if isinstance(starter, WarmStart):
            await starter.close()

    def _command(self, rank: int) -> Command:
        env = {"PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1", "GROUP_RANK": "0", "RANK": str(rank)}
        log = FileSink(self._folder / f"log-{rank}")
        argv = (self._python, str(self._script), str(self._folder))
        return Command(name=f"rank {rank}", argv=argv, env=env, cwd=str(self._folder), stdout=log, stderr=log)


async def measure(python: str, workers: int, repetitions: int) -> list[Series]:
    """Return the seconds of each side."""
    alone, cold, shared = list[float](), list[float](), list[float]()
    supervisor = await Supervisor.create()
    try:
        with tempfile.TemporaryDirectory() as folder:
            node = Node(supervisor, python, Path(folder))
            await node.took_s(node.starter(), 1)  # records
            for _ in range(repetitions):
                alone.append(await node.took_s(supervisor, 1))
                cold.append(await node.took_s(supervisor, workers))
                shared.append(await node.took_s(node.starter(), workers))
    finally:
        await supervisor.close()
    name = f"first start to the last import, {os.cpu_count()} processors"
    goal_s = _GOAL * sorted(alone)[len(alone) // 2]
    return [
        Series("warm start", name, "one worker", tuple(alone)),
        Series("warm start", name, f"{workers} workers, each by itself", tuple(cold)),
        Series("warm start", name, f"{workers} workers, from a recording", tuple(shared), target=goal_s),
    ]


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--python", help="an interpreter with torch; default: that of hack/torch-venv")
    parser.add_argument("--json", type=Path, help="keep all samples there")
    options = parser.parse_args()
    python = options.python or python_with_torch(without=False)[0]
    report: Report = results.begin()
    with results.keep(report, options.json):
        report.series += asyncio.run(measure(python, options.workers, options.repetitions))
        print(results.table(report.series))


if __name__ == "__main__":
    main()

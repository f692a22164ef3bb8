"""Memory and pace of a warm start: `python -m benchmarks.processes.warm_memory [ROW…]`.

The workers are those of warm_worker.py, with torch. Rows:

    memory    workers started cold and warm, with the zygote and the workers that wait
    build     the steps of a training before, during and after a build, with and without a free processor
    fork      one fork ahead
    idle      wake-ups of a zygote and of workers that wait
"""

import argparse
import asyncio
import os
import socket
import struct
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path

from benchmarks.processes.bench import python_with_torch
from benchmarks.report import results
from benchmarks.report.results import Report, Series
from elasticjob_agent.host.memory import share_of_process
from elasticjob_agent.supervisor import Child, Command, FileSink, Supervisor
from elasticjob_agent.supervisor.preforked import PreforkedWorker
from elasticjob_agent.warm_start.build_guard import guarded
from elasticjob_agent.warm_start.changed_variables import ChangedVariables
from elasticjob_agent.warm_start.eligibility import DENIED_PACKAGES
from elasticjob_agent.warm_start.injection import record_imports
from elasticjob_agent.warm_start.node_recording import NodeRecording
from elasticjob_agent.warm_start.zygote import Zygote
from testing.waiting import aeventually

GROUP = "warm start"
MIB = 1 << 20
ROWS = ("memory", "build", "fork", "idle")
_NO_LIMIT = 1 << 50
_VARYING = ("RANK", "LOCAL_RANK", "MASTER_PORT")
_WORKER = Path(__file__).with_name("warm_worker.py")
_START_S = 180.0
_BASELINE_S = 8.0
_IDLE_S = 10.0
_TARGET_PRIVATE_MIB, _TARGET_NODE_MIB = 20.0, 700.0


class Node:
    """The workers of one node in a folder of their own."""

    def __init__(self, supervisor: Supervisor, python: str, folder: Path, workers: int) -> None:
        self.supervisor = supervisor
        self.folder = folder
        self._python = python
        self._recording: NodeRecording
        self.workers = workers

    def commands(self, steps: int) -> list[Command]:
        """Return the commands of the next round."""
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
        return [self._command(rank, port, steps) for rank in range(self.workers)]

    def _command(self, rank: int, port: int, steps: int) -> Command:
        group = {"WORLD_SIZE": str(self.workers), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        env = {"PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1", "RANK": str(rank), "LOCAL_RANK": str(rank), **group}
        log = FileSink(self.folder / f"log-{rank}")
        argv = (self._python, str(_WORKER), str(self.folder), str(steps))
        return Command(name=f"rank {rank}", argv=argv, env=env, cwd=str(self.folder), stdout=log, stderr=log)

    async def start(self, steps: int = 0, workers: Sequence[PreforkedWorker] = ()) -> list[Child]:
        """Start a round; return when all ranks have done their steps, or the first of an unlimited number."""
        for file in self.folder.glob("*-*"):
            file.unlink()
        commands = self.commands(steps)
        if not workers:
            self._recording = NodeRecording(1)
            commands[0] = record_imports(commands[0], self._recording.write_fds[0])
        children = await self.supervisor.spawn(commands, list(workers))
        self._recording.workers_started()
        count = steps or 1
        await aeventually(
            lambda: all(len(self.steps(rank)) >= count for rank in range(self.workers)), within_s=_START_S
        )
        return children

    def steps(self, rank: int = 0) -> list[float]:
        """Return the ends of a rank's steps, in monotonic seconds."""
        try:
            data = (self.folder / f"steps-{rank}").read_bytes()
        except FileNotFoundError:
            return []
        return [each for (each,) in struct.iter_unpack("d", data[: len(data) // 8 * 8])]

    async def build(self, *, paced: bool = True) -> Zygote:
        """Return a zygote with the imports of the running workers; `paced` False: they run at full speed."""
        zygote = await Zygote.start(
            self.supervisor,
            self.commands(0)[0],
            imports=self._recording,
            variables=self._recording.variables,
            changed=ChangedVariables(),
            files={},
            denied=DENIED_PACKAGES,
            varying=_VARYING,
            output=lambda lines: print(lines.decode(), end="", file=sys.stderr),
        )
        if paced:
            await guarded(zygote.read_report, zygote.child.pid, limit=_NO_LIMIT)
        else:
            await zygote.read_report()
        return zygote

    async def fork(self, zygote: Zygote) -> list[PreforkedWorker]:
        """Return a waiting worker for each rank."""
        workers = await zygote.fork(self.workers)
        assert all(await asyncio.gather(*(worker.registered for worker in workers)))
        return workers


Measure = Callable[[Node], Awaitable[list[Series]]]


# --- rows --------------------------------------------------------------------------------------------------------


async def measure_memory(node: Node) -> list[Series]:
    """Return the memory of these workers, cold and warm, with the zygote and the next workers."""
    workers = node.workers
    cold = await node.start(steps=3)
    found = [_private("cold", workers, cold), _node("cold", workers, [child.pid for child in cold])]
    zygote = await node.build()
    forked = await node.fork(zygote)
    await node.supervisor.stop(cold, grace_s=0)
    warm = await node.start(3, forked)
    assert all(child.is_warm for child in warm)
    # The workers that wait come last: each process that shares a page lowers the share of the others.
    together = [zygote.child.pid, *(child.pid for child in warm)]
    found += [_private("warm", workers, warm), _node("warm, with the zygote", workers, together)]
    waiting = await node.fork(zygote)
    together += [each.pid for each in waiting]
    found.append(_node("warm, with the zygote and the next workers", workers, together))
    await node.supervisor.discard(waiting)
    await node.supervisor.stop(warm, grace_s=0)
    await zygote.close()
    return found


def _node(side: str, workers: int, pids: Sequence[int]) -> Series:
    total = sum(share_of_process(pid) for pid in pids) / MIB
    return Series(GROUP, f"{workers} workers of a node, PSS", side, (total,), "MiB", _TARGET_NODE_MIB)


def _private(side: str, workers: int, children: Sequence[Child]) -> Series:
    samples = tuple(_private_dirty(child.pid) / MIB for child in children)
    return Series(GROUP, f"private memory of each of {workers} workers", side, samples, "MiB", _TARGET_PRIVATE_MIB)


def _private_dirty(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) << 10


async def measure_build(node: Node, *, paced: bool) -> list[Series]:
    """Return the seconds of the steps before, during and after a build."""
    workers = node.workers
    children = await node.start()
    await asyncio.sleep(_BASELINE_S)
    began_s = time.monotonic()
    zygote = await node.build(paced=paced)
    ended_s = time.monotonic()
    await zygote.close()
    await asyncio.sleep(_BASELINE_S)
    steps = node.steps()
    await node.supervisor.stop(children, grace_s=0)
    name = f"step of {workers} workers on {os.cpu_count()} processors"
    side = "paced" if paced else "at full speed"
    return [
        Series(GROUP, name, f"before a build {side}", _durations(steps, began_s - _BASELINE_S + 1, began_s)),
        Series(GROUP, name, f"during a build {side}", _durations(steps, began_s, ended_s)),
        Series(GROUP, name, f"after a build {side}", _durations(steps, ended_s + 1, ended_s + _BASELINE_S)),
        Series(GROUP, f"build beside {workers} workers", side, (ended_s - began_s,)),
    ]


def _durations(steps: Sequence[float], begin_s: float, end_s: float) -> tuple[float, ...]:
    return tuple(after - before for before, after in pairwise(steps) if begin_s <= before and after <= end_s)


async def measure_fork(node: Node) -> list[Series]:
    """Return the seconds of each fork ahead, and the processor seconds that it took the zygote."""
    children = await node.start(steps=3)
    zygote = await node.build()
    samples, used_s = [], []
    for _ in range(10):
        before_s, began_s = _cpu_s(zygote.child.pid), time.monotonic()
        [worker] = await zygote.fork(1)
        await worker.registered
        samples.append(time.monotonic() - began_s)
        used_s.append(_cpu_s(zygote.child.pid) - before_s)
    await zygote.close()
    await node.supervisor.stop(children, grace_s=0)
    return [
        Series(GROUP, "one fork ahead, torch imported", "wall", tuple(samples)),
        Series(GROUP, "one fork ahead, torch imported", "zygote's processor time", tuple(used_s)),
    ]


def _cpu_s(pid: int) -> float:
    return time.clock_gettime(~pid << 3 | 2)


async def measure_idle(node: Node) -> list[Series]:
    """Return the context switches of a zygote and of the waiting workers over some seconds."""
    workers = node.workers
    children = await node.start(steps=3)
    zygote = await node.build()
    pids = [zygote.child.pid, *(worker.pid for worker in await node.fork(zygote))]
    await asyncio.sleep(1)
    before = [_switches(pid) for pid in pids]
    await asyncio.sleep(_IDLE_S)
    counts = tuple(float(_switches(pid) - first) for pid, first in zip(pids, before, strict=True))
    await zygote.close()
    await node.supervisor.stop(children, grace_s=0)
    return [Series(GROUP, f"wake-ups of a zygote and {workers} waiting workers in {_IDLE_S:.0f} s", "", counts, "", 0)]


def _switches(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if "ctxt_switches" in line)


# --- the run -----------------------------------------------------------------------------------------------------


async def measure(python: str, rows: Sequence[str], report: Report) -> None:
    """Take all rows."""
    every = os.cpu_count() or 1
    work: dict[str, list[tuple[int, Measure]]] = {
        "memory": [(2, measure_memory), (8, measure_memory)],
        "build": [(n, partial(measure_build, paced=paced)) for n in (1, every) for paced in (True, False)],
        "fork": [(1, measure_fork)],
        "idle": [(2, measure_idle)],
    }
    for row in rows:
        for workers, function in work[row]:
            with results.attempt(report, f"{row}, {workers} workers"), tempfile.TemporaryDirectory() as folder:
                supervisor = await Supervisor.create()
                try:
                    found = await function(Node(supervisor, python, Path(folder), workers))
                finally:
                    await supervisor.close()
                report.series += found
                for one in found:
                    _print(one)


def _print(one: Series) -> None:
    few = ", ".join(f"{each:.4g}" for each in one.samples[:10])
    spread = f"p50 {one.p50:.4g} p99 {one.p99:.4g} n {len(one.samples)}" if len(one.samples) > 10 else few
    print(f"{one.name:44} {one.side:42} {spread} {one.unit}", flush=True)


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"{', '.join(ROWS)}; default: all")
    parser.add_argument("--python", help="an interpreter with torch; default: that of hack/torch-venv")
    parser.add_argument("--json", type=Path, help="keep all samples there")
    options = parser.parse_args()
    if unknown := set(options.rows) - set(ROWS):
        parser.error(f"there is no {min(unknown)}; the rows are {', '.join(ROWS)}")
    python = options.python or python_with_torch(without=False)[0]
    report = results.begin()
    with results.keep(report, options.json):
        asyncio.run(measure(python, options.rows or ROWS, report))


if __name__ == "__main__":
    main()

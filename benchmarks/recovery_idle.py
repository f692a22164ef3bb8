"""What an agent costs while nothing happens: processor and memory of it and of its starter, messages to etcd.

Beside it, in turns, an idle torchrun, and as the floor a Python that has imported gRPC and sleeps. Processor time is
the scheduler's own count, in nanoseconds: the ticks of `times` would be half the result. Memory is given two ways:
resident (pages that agents of one machine share count for each), and its own alone.
"""

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import psutil

from benchmarks import etcds, results
from benchmarks.cpu import used_s
from benchmarks.etcds import Server
from benchmarks.recovery_torchrun import TORCHRUN, torchruns
from benchmarks.results import FLOOR, OURS, Report, Series
from tests.faults.fleet import fleet
from tests.faults.waiting import eventually

GROUP = "idle"
WATCHED_S = 12.0
AGENTS = 2
PROCESSOR, RESIDENT, UNIQUE, MESSAGES = "processor", "memory, resident", "memory, its own", "messages to etcd"
_KINDS: Mapping[str, tuple[str, float | None]] = {
    PROCESSOR: ("%", 0.1),
    RESIDENT: ("MB", 60.0),
    UNIQUE: ("MB", None),
    MESSAGES: ("/s", None),
}
"""Of each its unit and target."""
_SLEEPS = ("sleep", "1000000")
_SETTLE_S = 2.0
_BARE = "import grpc.aio, time; print(flush=True); time.sleep(1000000)"

Family = AbstractContextManager[list[psutil.Process]]


def idle_series(server: Server, python: str | None, *, report: Report, repetitions: int) -> list[Series]:
    """Every side in turn, the floor once; nobody else may use this etcd."""
    endpoint, folder = server.endpoint.targets[0], server.folder
    sides: dict[str, Callable[[], Family]] = {OURS: lambda: idle_fleet(endpoint, folder), FLOOR: _bare}
    if python:
        sides[TORCHRUN] = lambda: _torchruns(python, folder)
    samples: dict[tuple[str, str], list[float]] = {}
    for turn in range(repetitions):
        for side, family in sides.items():
            if side == FLOOR and turn:
                continue
            with results.tried(report, f"idle, {side}, repetition {turn + 1}"), family() as processes:
                for kind, value in idle(processes, server if side == OURS else None).items():
                    samples.setdefault((kind, side), []).append(value)
    return [
        Series(
            GROUP, f"an idle agent: {kind}", side, tuple(samples[kind, side]), unit, target if side == OURS else None
        )
        for kind, (unit, target) in _KINDS.items()
        for side in sides
        if (kind, side) in samples
    ]


def idle(family: Sequence[psutil.Process], server: Server | None) -> dict[str, float]:
    """What these processes cost from now on, by kind; with their server also what each agent says to it."""
    pids = [process.pid for process in family]
    before_s, said = used_s(pids), etcds.messages(server) if server else None
    time.sleep(WATCHED_S)
    spent_s = used_s(pids) - before_s
    memory = [process.memory_full_info() for process in family]
    costs = {
        PROCESSOR: 100 * spent_s / WATCHED_S,
        RESIDENT: sum(each.rss for each in memory) / 1e6,
        UNIQUE: sum(each.uss for each in memory) / 1e6,
    }
    if server and said is not None:
        costs[MESSAGES] = (etcds.messages(server) - said).total() / AGENTS / WATCHED_S
    return costs


@contextlib.contextmanager
def idle_fleet(endpoint: str, folder: Path) -> Iterator[list[psutil.Process]]:
    """Two agents whose workers sleep; the first one's own processes, when what belongs to the start is over."""
    with fleet(endpoint, folder, "2", 1) as job:
        agents = [psutil.Process(job.start_agent(*_SLEEPS).pid) for _ in range(AGENTS)]
        eventually(lambda: all(map(_runs, agents)), within_s=30, what="the idle agents' workers")
        time.sleep(_SETTLE_S)
        yield [agents[0], *(p for p in agents[0].children(recursive=True) if p.cmdline() != list(_SLEEPS))]


@contextlib.contextmanager
def _torchruns(python: str, folder: Path) -> Iterator[list[psutil.Process]]:
    """Two of torchrun's agents; the first one."""
    with torchruns(python, folder, 0.0, str(AGENTS), 1) as job:
        job.start_agents(AGENTS)
        time.sleep(_SETTLE_S)
        yield [psutil.Process(job.agents[0].pid)]


@contextlib.contextmanager
def _bare() -> Iterator[list[psutil.Process]]:
    """The interpreter and the client's library that an agent cannot do without."""
    with subprocess.Popen([sys.executable, "-I", "-c", _BARE], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield [psutil.Process(process.pid)]
        finally:
            process.kill()


def _runs(agent: psutil.Process) -> bool:
    return any(p.cmdline() == list(_SLEEPS) for p in agent.children(recursive=True))

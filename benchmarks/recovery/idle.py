"""The cost of an idle agent: processor and memory of the agent and its fork server, messages to etcd.

It alternates with an idle torchrun, and with the floor: a bare client of gRPC that only keeps a lease alive. Processor
time is the scheduler's own count, in nanoseconds: the ticks of `times` would be half the result. Memory is given two
ways: resident (shared pages of agents on one machine count for each), and its own alone.

An agent is idle when its start is over. The last part of the start is the sample of its workers' use, 10 s after a
round began to run. From then on it is measured for one whole report period, so that every recurring event is inside as
often as it recurs. These are a keep-alive every 2 s and gRPC's pings every 10 s. Every 60 s there is a report with its
scan of all processes of the machine. The floor is measured for as long: the wake-ups of gRPC's threads depend on the
time of a keep-alive between two ticks of its timers. torchrun does the same every second: 12 s are enough.
"""

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import psutil

from benchmarks.profiles.cpu import used_s
from benchmarks.recovery.torchrun import TORCHRUN, torchruns
from benchmarks.report import etcds, results
from benchmarks.report.etcds import Server
from benchmarks.report.results import FLOOR, OURS, Report, Series
from testing.processes.fleet import fleet
from testing.waiting import eventually

GROUP = "idle"
PERIOD_S = 60.0
"""The default of `agent.reportPeriodSeconds`, which these agents have."""
START_S = 13.0
"""After that nothing of a start runs: its last sample is taken at 10 s."""
TORCHRUN_S = 12.0
"""The time for a side without such a period."""
AGENTS = 2
PROCESSOR, RESIDENT, UNIQUE, MESSAGES = "processor", "memory, resident", "memory, its own", "messages to etcd"
_KINDS: Mapping[str, tuple[str, float | None]] = {
    PROCESSOR: ("%", 0.1),
    RESIDENT: ("MB", 60.0),
    UNIQUE: ("MB", None),
    MESSAGES: ("/s", None),
}
"""Unit and target of each."""
_SLEEPS = ("sleep", "1000000")
_SETTLE_S = 2.0

Family = Sequence[psutil.Process]
"""An agent and its children, except the workers."""
Families = AbstractContextManager[list[Family]]


def idle_series(server: Server, python: str | None, *, report: Report, repetitions: int) -> list[Series]:
    """Measure every side in turn; no other client may use this etcd."""
    endpoint, folder = server.endpoint.targets[0], server.folder
    sides: dict[str, Callable[[], Families]] = {
        OURS: lambda: idle_fleet(endpoint, folder),
        FLOOR: lambda: _bare(endpoint),
    }
    seconds = {FLOOR: PERIOD_S, TORCHRUN: TORCHRUN_S}
    if python:
        sides[TORCHRUN] = lambda: _torchruns(python, folder)
    samples: dict[tuple[str, str], list[float]] = {}
    for turn in range(repetitions):
        for side, made in sides.items():
            with results.attempt(report, f"idle, {side}, repetition {turn + 1}"), made() as families:
                for kind, value in _ours(families, server) if side == OURS else costs(families, seconds[side]):
                    samples.setdefault((kind, side), []).append(value)
    return [
        Series(
            GROUP, f"an idle agent: {kind}", side, tuple(samples[kind, side]), unit, target if side == OURS else None
        )
        for kind, (unit, target) in _KINDS.items()
        for side in sides
        if (kind, side) in samples
    ]


def _ours(families: Sequence[Family], server: Server) -> list[tuple[str, float]]:
    """Return also each agent's messages to etcd."""
    before = etcds.messages(server)
    found = costs(families, PERIOD_S)
    return [*found, (MESSAGES, (etcds.messages(server) - before).total() / AGENTS / PERIOD_S)]


def costs(families: Sequence[Family], for_s: float) -> list[tuple[str, float]]:
    """Return the costs of each family from now on, by kind."""
    pids = [[process.pid for process in family] for family in families]
    before_s = [used_s(each) for each in pids]
    time.sleep(for_s)
    spent_s = [used_s(each) - before for each, before in zip(pids, before_s, strict=True)]
    memory = [[process.memory_full_info() for process in family] for family in families]
    return [
        *((PROCESSOR, 100 * each / for_s) for each in spent_s),
        *((RESIDENT, sum(info.rss for info in each) / 1e6) for each in memory),
        *((UNIQUE, sum(info.uss for info in each) / 1e6) for each in memory),
    ]


@contextlib.contextmanager
def idle_fleet(endpoint: str, folder: Path, *, start_s: float = START_S) -> Iterator[list[Family]]:
    """Start two agents whose workers sleep, and wait `start_s` after these run; the first one usually leads."""
    with fleet(endpoint, folder, "2", 1) as job:
        agents = [psutil.Process(job.start_agent(*_SLEEPS).pid) for _ in range(AGENTS)]
        eventually(lambda: all(map(_runs, agents)), within_s=30, what="the idle agents' workers")
        time.sleep(start_s)
        yield [_own(agent) for agent in agents]


@contextlib.contextmanager
def _torchruns(python: str, folder: Path) -> Iterator[list[Family]]:
    """Start two of torchrun's agents."""
    with torchruns(python, folder, 0.0, str(AGENTS), 1) as job:
        job.start_agents(AGENTS)
        time.sleep(_SETTLE_S)
        yield [[psutil.Process(agent.pid)] for agent in job.agents]


@contextlib.contextmanager
def _bare(endpoint: str) -> Iterator[list[Family]]:
    """Start as many bare clients as there are agents, each with a lease of its own."""
    command = [sys.executable, "-m", "benchmarks.recovery.idle_grpc_floor", endpoint]
    with contextlib.ExitStack() as stack:
        clients = []
        for _ in range(AGENTS):
            clients.append(stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE)))
            stack.callback(clients[-1].kill)
        for client in clients:
            assert client.stdout is not None
            assert client.stdout.readline(), "a bare client ended at once"
        time.sleep(_SETTLE_S)
        yield [[psutil.Process(client.pid)] for client in clients]


def _own(agent: psutil.Process) -> Family:
    return [agent, *(p for p in agent.children(recursive=True) if p.cmdline() != list(_SLEEPS))]


def _runs(agent: psutil.Process) -> bool:
    return any(p.cmdline() == list(_SLEEPS) for p in agent.children(recursive=True))

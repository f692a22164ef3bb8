"""What an agent costs while nothing happens: processor and memory of it and of its starter, messages to etcd.

Processor time is the scheduler's own count, in nanoseconds: the ticks of `times` would be half the result. Memory is
given three ways: resident (pages that agents of one machine share count for each), proportional (they count once in
all), and its own alone.
"""

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks import etcds
from benchmarks.cpu import used_s
from benchmarks.etcds import Server
from tests.faults.fleet import fleet
from tests.faults.waiting import eventually

WATCHED_S = 20.0
AGENTS = 2
_SLEEPS = ("sleep", "1000000")
_SETTLE_S = 2.0


@dataclass(frozen=True)
class Idle:
    """One agent with one worker that sleeps."""

    cpu_percent: float
    rss_mb: float
    proportional_mb: float
    unique_mb: float
    etcd_messages_s: float


def idle_agent(server: Server, *, watched_s: float = WATCHED_S) -> Idle:
    """Measure one of two agents, the worker not counted; nobody else may use this etcd."""
    with idle_fleet(server.endpoint.targets[0], server.folder) as family:
        pids = [process.pid for process in family]
        before_s, said = used_s(pids), etcds.messages(server)
        time.sleep(watched_s)
        spent_s = used_s(pids) - before_s
        messages = sum((etcds.messages(server) - said).values())
        memory = [process.memory_full_info() for process in family]
        return Idle(
            cpu_percent=100 * spent_s / watched_s,
            rss_mb=sum(m.rss for m in memory) / 1e6,
            proportional_mb=sum(m.pss for m in memory) / 1e6,
            unique_mb=sum(m.uss for m in memory) / 1e6,
            etcd_messages_s=messages / AGENTS / watched_s,
        )


@contextlib.contextmanager
def idle_fleet(endpoint: str, folder: Path) -> Iterator[list[psutil.Process]]:
    """Two agents whose workers sleep; the first one's own processes, when what belongs to the start is over."""
    with fleet(endpoint, folder, "2", 1) as job:
        agents = [psutil.Process(job.start_agent(*_SLEEPS).pid) for _ in range(AGENTS)]
        eventually(lambda: all(map(_runs, agents)), within_s=30, what="the idle agents' workers")
        time.sleep(_SETTLE_S)
        yield [agents[0], *(p for p in agents[0].children(recursive=True) if p.cmdline() != list(_SLEEPS))]


def _runs(agent: psutil.Process) -> bool:
    return any(p.cmdline() == list(_SLEEPS) for p in agent.children(recursive=True))

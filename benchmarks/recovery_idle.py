"""What an agent costs while nothing happens: processor time and memory of it and of its starter."""

import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.faults.fleet import fleet

WATCHED_S = 20.0
_SLEEPS = ("sleep", "1000000")


@dataclass(frozen=True)
class Idle:
    """One agent, over WATCHED_S seconds with one worker that sleeps."""

    cpu_percent: float
    rss_mb: float
    unique_mb: float


def idle_agent(endpoint: str, folder: Path) -> Idle:
    """Measure one of two agents, the worker not counted."""
    with fleet(endpoint, folder, "2", 1) as job:
        agents = [job.start_agent(*_SLEEPS) for _ in range(2)]
        _until_running(psutil.Process(agents[0].pid))
        family = _own(psutil.Process(agents[0].pid))
        before_s = _cpu_s(family)
        time.sleep(WATCHED_S)
        used_s = _cpu_s(family) - before_s
        memory = [process.memory_full_info() for process in family]
        return Idle(
            cpu_percent=100 * used_s / WATCHED_S,
            rss_mb=sum(m.rss for m in memory) / 1e6,
            unique_mb=sum(m.uss for m in memory) / 1e6,
        )


def _own(agent: psutil.Process) -> list[psutil.Process]:
    return [agent, *(p for p in agent.children(recursive=True) if p.cmdline() != list(_SLEEPS))]


def _until_running(agent: psutil.Process) -> None:
    deadline_s = time.monotonic() + 30
    while not any(p.cmdline() == list(_SLEEPS) for p in agent.children(recursive=True)):
        if time.monotonic() > deadline_s:
            raise AssertionError("the idle agent's worker did not start")
        time.sleep(0.05)
    time.sleep(1.0)  # what belongs to the start is over


def _cpu_s(family: list[psutil.Process]) -> float:
    return sum(t.user + t.system for t in (process.cpu_times() for process in family))

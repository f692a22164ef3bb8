"""The scenarios of `make bench-recovery`: each with our agents, and those that there are with torchrun."""

import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.recovery_torchrun import torchruns
from tests.faults.fleet import WORKER, Fleet, fleet

CHECKPOINT_S = 20.0
CHECKPOINTER = f"""
import signal, sys, time
def save(number, frame):
    time.sleep({CHECKPOINT_S})
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
{WORKER}
"""


@dataclass(frozen=True)
class Run:
    """One repetition: µs from the event to the next round (None: never), and the trace between them."""

    took_us: int | None
    trace: list[tuple[int, str]]


@dataclass(frozen=True)
class Scenario:
    """One row; `ours` gets etcd's endpoint and a folder, `theirs` torch's Python and a folder."""

    name: str
    target_s: float
    ours: Callable[[str, Path], Run]
    theirs: Callable[[str, Path], Run] | None = None
    once: bool = False


def now_us() -> int:
    """The wall clock, as the traces have it."""
    return time.time_ns() // 1000


def _finished(job: Fleet, begin_us: int, end_us: int) -> Run:
    points = [p for p in job.points() if begin_us <= int(p["t_us"]) <= end_us]
    named = [(int(p["t_us"]) - begin_us, f"{p['agent']} round {p['round']}: {p['point']}") for p in points]
    return Run(end_us - begin_us, named)


def _took(begin_us: int, end_us: int | None) -> Run:
    return Run(None if end_us is None else end_us - begin_us, [])


# -- ours ----------------------------------------------------------------------------------------------


def _start_2x2(endpoint: str, folder: Path) -> Run:
    with fleet(endpoint, folder, "2", 2) as job:
        begin_us = now_us()
        job.start_agent()
        job.start_agent()
        return _finished(job, begin_us, job.await_round(1, 4))


def _worker_exits(endpoint: str, folder: Path) -> Run:
    with fleet(endpoint, folder, "3", 1) as job:
        job.start_agents(3)
        job.fail(1)
        end_us = job.await_round(2, 3)
        begin_us = next(int(p["t_us"]) for p in job.points() if p["point"] == "exits")
        return _finished(job, begin_us, end_us)


def _after(number: signal.Signals, *command: str) -> Callable[[str, Path], Run]:
    """That signal for the last of three agents."""

    def run(endpoint: str, folder: Path) -> Run:
        with fleet(endpoint, folder, "2:3", 1) as job:
            for _ in range(3):
                job.start_agent(*(word.format(trace=job.trace, orders=job.orders) for word in command))
            job.await_round(1, 3)
            begin_us = now_us()
            job.agents[-1].send_signal(number)
            return _finished(job, begin_us, job.await_round(2, 2, within_s=60))

    return run


def _joins(endpoint: str, folder: Path) -> Run:
    with fleet(endpoint, folder, "2:3", 1) as job:
        job.start_agents(2)
        begin_us = now_us()
        job.start_agent()
        return _finished(job, begin_us, job.await_round(2, 3))


# -- torchrun ------------------------------------------------------------------------------------------


def _their_start_2x2(python: str, folder: Path) -> Run:
    with torchruns(python, folder, "2", 2) as job:
        begin_us = now_us()
        job.start_agent()
        job.start_agent()
        return _took(begin_us, job.await_running(4, after_us=begin_us))


def _their_worker_exits(python: str, folder: Path) -> Run:
    with torchruns(python, folder, "3", 1) as job:
        job.start_agents(3)
        begin_us = job.fail(1)
        return _took(begin_us, job.await_running(3, after_us=begin_us))


def _their_agent_after(number: signal.Signals) -> Callable[[str, Path], Run]:
    def run(python: str, folder: Path) -> Run:
        with torchruns(python, folder, "2:3", 1) as job:
            job.start_agents(3)
            begin_us = now_us()
            job.agents[-1].send_signal(number)
            return _took(begin_us, job.await_running(2, after_us=begin_us))

    return run


def _their_join(python: str, folder: Path) -> Run:
    with torchruns(python, folder, "2:3", 1) as job:
        job.start_agents(2)
        begin_us = now_us()
        job.start_agent()
        return _took(begin_us, job.await_running(3, after_us=begin_us))


# A worker's command is a template here: braces of the program itself are doubled.
_SAVES = (sys.executable, "-S", "-c", CHECKPOINTER.replace("{", "{{").replace("}", "}}"), "{trace}", "{orders}", "RANK")

SCENARIOS = (
    Scenario("start 2x2", 0.4, _start_2x2, _their_start_2x2),
    Scenario("worker exits 1, 3x1", 0.15, _worker_exits, _their_worker_exits),
    Scenario("agent SIGTERMed", 0.2, _after(signal.SIGTERM), _their_agent_after(signal.SIGTERM)),
    Scenario("agent joins", 0.3, _joins, _their_join),
    Scenario("agent SIGKILLed", 1.0, _after(signal.SIGKILL), _their_agent_after(signal.SIGKILL)),
    Scenario("SIGTERM, 20 s to save", CHECKPOINT_S + 0.2, _after(signal.SIGTERM, *_SAVES), once=True),
)

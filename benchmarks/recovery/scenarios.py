"""The scenarios of `make bench-recovery`: each with our agents, and those possible with torchrun."""

import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.recovery.torchrun import torchruns
from testing.processes.fleet import WORKER, Fleet, fleet

CHECKPOINT_S = 20.0
CHECKPOINTER = f"""
import signal, sys, time
def save(number, frame):
    time.sleep({CHECKPOINT_S})
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
{WORKER}
"""


PROGRESSES = f"""
import os
with open(os.environ["ELASTICJOB_PROGRESS"], "w") as progress:
    progress.write('{{"step": 1}}\\n')
{WORKER}
"""
"""A job whose workers fail one after the other without progress is delayed, by design."""
FAILURES = 5
"""Failures of one job, one after the other: the most important scenario has the largest sample."""


@dataclass(frozen=True)
class Run:
    """One sample: µs from the event to the next round (None: never), and the trace between them."""

    took_us: int | None
    trace: Path | None = None
    round: int = 0


@dataclass(frozen=True)
class Scenario:
    """One row; `ours` gets etcd's endpoint and a folder, `theirs` torch's Python, a folder and the longest wait."""

    name: str
    target_s: float
    ours: Callable[[str, Path], list[Run]]
    theirs: Callable[[str, Path, float], Run] | None = None
    once: bool = False


def now_us() -> int:
    """Return the wall clock, as in the traces."""
    return time.time_ns() // 1000


def _took(begin_us: int, end_us: int | None) -> Run:
    return Run(None if end_us is None else end_us - begin_us)


# -- ours ----------------------------------------------------------------------------------------------


def _start_2x2(endpoint: str, folder: Path) -> list[Run]:
    with fleet(endpoint, folder, "2", 2) as job:
        begin_us = now_us()
        job.start_agent()
        job.start_agent()
        return [Run(job.await_round(1, 4) - begin_us, job.trace, 1)]


def worker_exits(endpoint: str, folder: Path) -> list[Run]:
    """Let the workers of three agents with one worker each fail, one after the other."""
    with fleet(endpoint, folder, "3", 1) as job:
        for _ in range(3):
            job.start_agent(*_filled(job, _PROGRESSES))
        job.await_round(1, 3)
        return [_fail(job, number % 3, round_=number + 2) for number in range(FAILURES)]


def _filled(job: Fleet, command: Sequence[str]) -> list[str]:
    """Return the command of a worker, with this job's files in it."""
    files = {"{trace}": str(job.trace), "{orders}": str(job.orders)}
    return [files.get(word, word) for word in command]


def _fail(job: Fleet, rank: int, *, round_: int) -> Run:
    job.fail(rank)
    end_us = job.await_round(round_, 3)
    begin_us = max(int(p["t_us"]) for p in job.points() if p["point"] == "exits")
    return Run(end_us - begin_us, job.trace, round_)


def _after(number: signal.Signals, *command: str) -> Callable[[str, Path], list[Run]]:
    """Return a scenario that sends this signal to the last of three agents."""

    def run(endpoint: str, folder: Path) -> list[Run]:
        with fleet(endpoint, folder, "2:3", 1) as job:
            for _ in range(3):
                job.start_agent(*_filled(job, command))
            job.await_round(1, 3)
            begin_us = now_us()
            job.agents[-1].send_signal(number)
            return [Run(job.await_round(2, 2, within_s=60) - begin_us, job.trace, 2)]

    return run


def _joins(endpoint: str, folder: Path) -> list[Run]:
    with fleet(endpoint, folder, "2:3", 1) as job:
        job.start_agents(2)
        begin_us = now_us()
        job.start_agent()
        return [Run(job.await_round(2, 3) - begin_us, job.trace, 2)]


# -- torchrun ------------------------------------------------------------------------------------------


def _their_start_2x2(python: str, folder: Path, longest_s: float) -> Run:
    with torchruns(python, folder, longest_s, "2", 2) as job:
        begin_us = now_us()
        job.start_agent()
        job.start_agent()
        return _took(begin_us, job.await_running(4, after_us=begin_us))


def _their_worker_exits(python: str, folder: Path, longest_s: float) -> Run:
    with torchruns(python, folder, longest_s, "3", 1) as job:
        job.start_agents(3)
        begin_us = job.fail(1)
        return _took(begin_us, job.await_running(3, after_us=begin_us))


def _their_agent_after(number: signal.Signals) -> Callable[[str, Path, float], Run]:
    def run(python: str, folder: Path, longest_s: float) -> Run:
        with torchruns(python, folder, longest_s, "2:3", 1) as job:
            job.start_agents(3)
            begin_us = now_us()
            job.agents[-1].send_signal(number)
            return _took(begin_us, job.await_running(2, after_us=begin_us))

    return run


def _their_join(python: str, folder: Path, longest_s: float) -> Run:
    with torchruns(python, folder, longest_s, "2:3", 1) as job:
        job.start_agents(2)
        begin_us = now_us()
        job.start_agent()
        return _took(begin_us, job.await_running(3, after_us=begin_us))


_ARGUMENTS = ("{trace}", "{orders}", "RANK")
_SAVES = (sys.executable, "-S", "-c", CHECKPOINTER, *_ARGUMENTS)
_PROGRESSES = (sys.executable, "-S", "-c", PROGRESSES, *_ARGUMENTS)

SCENARIOS = (
    Scenario("start 2x2", 0.4, _start_2x2, _their_start_2x2),
    Scenario("worker exits 1, 3x1", 0.15, worker_exits, _their_worker_exits),
    Scenario("agent SIGTERMed", 0.2, _after(signal.SIGTERM), _their_agent_after(signal.SIGTERM)),
    Scenario("agent joins", 0.3, _joins, _their_join),
    Scenario("agent SIGKILLed", 1.0, _after(signal.SIGKILL), _their_agent_after(signal.SIGKILL)),
    Scenario("SIGTERM, 20 s to save", CHECKPOINT_S + 0.2, _after(signal.SIGTERM, *_SAVES), once=True),
)

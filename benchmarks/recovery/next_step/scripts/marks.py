"""The points of a training script in the trace of its job, and its endless training."""

import json
import os
import sys
import time
from collections.abc import Callable

STEADY = 50
"""Steps after which the training counts as steady."""
PAUSE_S = 0.02


def mark(point: str) -> None:
    """Append one line to the trace, whose path is the script's first argument."""
    line = {
        "t_us": time.time_ns() // 1000,
        "agent": "worker",
        "round": int(os.environ.get("ELASTICJOB_ROUND", "0")),
        "point": point,
        "rank": int(os.environ["RANK"]),
        "world": int(os.environ["WORLD_SIZE"]),
        "pid": os.getpid(),
    }
    fd = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND)
    os.write(fd, json.dumps(line).encode() + b"\n")
    os.close(fd)


def begin(package: str) -> None:
    """Mark the script's first line, and whether the package is imported already."""
    mark("script, warm" if package in sys.modules else "script, cold")


def train(step: Callable[[], object]) -> None:
    """Train without end."""
    done = 0
    while True:
        step()
        done += 1
        step_done(done)


def step_done(number: int) -> None:
    """Mark the first step and the fiftieth, report the first as progress, and wait a little."""
    if number == 1:
        mark("first step")
        report_progress(number)
    if number == STEADY:
        mark("steady")
    time.sleep(PAUSE_S)


def report_progress(number: int) -> None:
    """Report a step to the agent: a job whose workers fail one after the other without progress is delayed."""
    if path := os.environ.get("ELASTICJOB_PROGRESS"):
        with open(path, "w") as progress:  # noqa: PTH123 - a pipe
            progress.write(json.dumps({"step": number}) + "\n")

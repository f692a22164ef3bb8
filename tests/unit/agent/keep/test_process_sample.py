"""A process that runs, or would run, works; one that was stopped or waits does not."""

import os
import signal
import subprocess
import sys

import pytest

from elasticjob_agent.keep.process_sample import ProcessSample, is_working, take_sample
from testing.waiting import eventually


@pytest.mark.parametrize(
    ("before", "now", "works"),
    [
        (ProcessSample("S", 5), ProcessSample("S", 5), False),
        (ProcessSample("T", 5), ProcessSample("T", 5), False),
        (ProcessSample("S", 5), ProcessSample("S", 6), True),
        (ProcessSample("S", 5), ProcessSample("SR", 5), True),
        (ProcessSample("S", 5), ProcessSample("D", 5), True),
        (ProcessSample("S", 5), ProcessSample("", 0), False),
    ],
    ids=["waits", "was stopped", "ran", "is ready to run", "waits for a disk", "has ended"],
)
def test_what_counts_as_work(before: ProcessSample, now: ProcessSample, *, works: bool) -> None:
    assert is_working(before, now) == works


def test_a_process_is_seen_working_stopped_and_ended() -> None:
    with subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"]) as process:
        first = take_sample(process.pid)
        eventually(lambda: is_working(first, take_sample(process.pid)), what="work")
        os.kill(process.pid, signal.SIGSTOP)
        eventually(lambda: take_sample(process.pid).states == "T", what="the stop")
        stopped = take_sample(process.pid)
        assert not is_working(stopped, take_sample(process.pid))
        process.kill()
        process.wait()
        assert take_sample(process.pid) == ProcessSample()

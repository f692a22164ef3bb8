"""The usage of a real worker and of the processes that it starts, as the kernel counts it."""

import os
import signal
import subprocess
from collections.abc import Iterator

import pytest

from elasticjob_agent.monitoring.usage import MIN_INTERVAL_S, UsageMeter
from testing.waiting import eventually

MIB = 1 << 20
SPINS = 'import time\nheld = b"x" * (64 << 20)\nwhile time.process_time() < 60: pass'


@pytest.fixture
def worker() -> Iterator["subprocess.Popen[bytes]"]:
    """A shell that leads a session and waits for a child, which spins and has 64 MiB."""
    script = f"python3 -c '{SPINS}' & wait"
    process = subprocess.Popen(["/bin/sh", "-c", script], start_new_session=True)
    yield process
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def test_the_usage_of_a_workers_child_counts_for_the_worker(worker: "subprocess.Popen[bytes]") -> None:
    samples = iter(range(10_000))
    meter = UsageMeter(lambda: next(samples) * MIN_INTERVAL_S)

    def both() -> bool:
        use = meter.measure([worker.pid]).get(worker.pid)
        return use is not None and (use.cpu_percent or 0.0) > 0.0 and use.memory_bytes > 64 * MIB

    eventually(both, what="cpu and memory of the child")

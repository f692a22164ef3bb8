"""Reads and writes of a tee, as the kernel counts them, and how often an idle agent wakes up by itself.

A tee that reads line by line makes a hundred times as many reads; chance makes a few. For an agent only its own
threads count: gRPC's wake up some ten times a second each, in any program.
"""

import asyncio
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.counts.record import Count
from benchmarks.recovery.idle import idle_fleet
from elasticjob_etcd.embedded import EmbeddedEtcd

LINES = 100_000
START_S, IDLE_S = 2.0, 6.0
"""Between the end of an agent's start and the first sample of its workers' use, at 10 s."""
_TEE = f"""
import sys, tempfile
from elasticjob_agent.multiprocessing import DefaultLogsSpecs, Std, start_processes
def calls():
    io = dict(line.split(": ") for line in open("/proc/self/io").read().splitlines())
    return int(io["syscr"]) + int(io["syscw"])
worker = "import sys; sys.stdout.writelines('a line of a training run\\\\n' for _ in range({LINES}))"
with tempfile.TemporaryDirectory() as folder:
    logs = DefaultLogsSpecs(log_dir=folder, tee=Std.OUT)
    ranks = {{0: ("-I", "-S", "-c", worker)}}
    context = start_processes(name="worker", entrypoint=sys.executable, args=ranks, envs={{0: {{}}}}, logs_specs=logs)
    before = calls()
    assert not context.wait().is_failed()
    context.close()
    print(calls() - before, file=sys.stderr)
"""


def take() -> list[Count]:
    """Return the counts of a tee and of an agent."""
    return [
        Count("reads and writes of a tee a 1,000 lines", tee_calls() * 1000 / LINES, tolerance=3.0, slack=5),
        Count("wake-ups of an idle agent's own threads a second", asyncio.run(_wake_ups_s()), slack=3),
    ]


def tee_calls() -> int:
    """Return the reads and writes of the process with the tee."""
    command = [sys.executable, "-c", _TEE]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=True)
    return int(done.stderr.splitlines()[-1])


async def _wake_ups_s() -> float:
    with tempfile.TemporaryDirectory(prefix="elasticjob-bench-") as folder:
        server = await EmbeddedEtcd.start(Path(folder) / "etcd", client_port=0, timeout_s=30)
        try:
            with idle_fleet(server.endpoint.targets[0], Path(folder), start_s=START_S) as families:
                pids = [process.pid for process in families[0]]
                before = sum(map(_own_wake_ups, pids))
                time.sleep(IDLE_S)  # noqa: ASYNC251 -- nothing else runs in this loop
                return (sum(map(_own_wake_ups, pids)) - before) / IDLE_S
        finally:
            await server.stop()


def _own_wake_ups(pid: int) -> int:
    """Return how often a thread of ours went to sleep so far; threads of gRPC have names of their own."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        status = dict(line.split(":\t", 1) for line in (task / "status").read_text().splitlines() if ":\t" in line)
        if status["Name"].startswith("python"):
            total += int(status["voluntary_ctxt_switches"])
    return total

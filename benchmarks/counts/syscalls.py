"""System calls by `strace -f -c`: of a worker, from its start to its end, and of importing the agent.

A worker's are those of nine workers less those of one, including the worker's own (it is `true`). Waits and polls are
left out: the machine decides how often a thread wakes. Those for memory are left out, too. In the rest chance adds a
call or two to a hundred. So the least of three runs counts: 106.0 to 107.1. Two counts are not taken. Those of a tee
depend on the fill of the pipe (`processes` counts them within wide bounds). Those of an idle agent depend on whether
its sample of all processes falls into the time.
"""

import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from benchmarks.counts.record import Count, tool

_ROOT = Path(__file__).parents[2]
_LONGEST_S = 120.0
_RUNS = 3
_WAITS = {"futex", "epoll_wait", "poll", "restart_syscall", "sched_yield", "rt_sigreturn"}
_MEMORY = {"mmap", "munmap", "brk"}
"""Python may give an arena back and take it again at each module, if its border lies there: 220 calls more."""
_LOOKS = {"wait4", "waitid", "recvfrom", "getppid"}
_ONE, _NINE = 1, 9
_ROW = re.compile(r"^\s*(\w+)\s+(\d+)$", re.MULTILINE)
_TOLERANCE, _CHANCE = 0.03, 1.0
_WORKERS = """
import sys, tempfile
from elasticjob_agent.multiprocessing import DefaultLogsSpecs, start_processes
ranks = range(int(sys.argv[1]))
with tempfile.TemporaryDirectory() as folder:
    context = start_processes(
        name="worker", entrypoint="/bin/true", args={rank: () for rank in ranks},
        envs={rank: {} for rank in ranks}, logs_specs=DefaultLogsSpecs(log_dir=folder),
    )
    assert not context.wait().is_failed()
    context.close()
"""
_AGENT = "from elasticjob_agent.cli.main import load_command; load_command()"


def take() -> list[Count]:
    """Return the counts of a worker and of an agent's imports."""
    workers = (counted(_WORKERS, str(_NINE)) - counted(_WORKERS, str(_ONE))) / (_NINE - _ONE)
    subprocess.run([sys.executable, "-c", _AGENT], cwd=_ROOT, check=True)  # byte code is compiled before the count
    imports = counted(_AGENT) - counted("")
    return [
        Count("system calls: a worker, from start to end", workers, tolerance=_TOLERANCE, slack=_CHANCE),
        Count("system calls: import of the agent", imports, tolerance=_TOLERANCE, slack=_CHANCE),
    ]


def counted(program: str, *arguments: str) -> int:
    """Return the least number of calls of this Python program and its children, without waits, polls and memory."""
    return min(_acting(by_name(program, *arguments)) for _ in range(_RUNS))


def _acting(calls: "Counter[str]") -> int:
    return sum(count for name, count in calls.items() if name not in _WAITS | _LOOKS | _MEMORY)


def by_name(program: str, *arguments: str) -> "Counter[str]":
    """Return how often each call is made."""
    with tempfile.NamedTemporaryFile(prefix="elasticjob-bench-") as out:
        strace = [tool("strace"), "-f", "-c", "-U", "name,calls", "-o", out.name]
        subprocess.run(
            [*strace, sys.executable, "-c", program, *arguments],
            cwd=_ROOT,
            env={"PYTHONHASHSEED": "0"},
            stdout=subprocess.DEVNULL,
            timeout=_LONGEST_S,
            check=True,
        )
        found = Counter({name: int(calls) for name, calls in _ROW.findall(Path(out.name).read_text())})
    if not found.pop("total", 0):
        raise AssertionError("strace counted nothing: has its table another form?")
    return found

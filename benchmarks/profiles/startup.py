"""The time of an agent's start before its first trace point: the interpreter, and each package it imports.

`-X importtime` reports each module's own time, by the clock. The least of several starts counts for each module, since
a busy machine only adds.
"""

import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence

from benchmarks.profiles.table import table

_AGENT = "from elasticjob_agent.cli.main import load_command; load_command()"
_LINE = re.compile(r"^import time:\s+(?P<self_us>\d+) \|\s+\d+ \|\s+(?P<module>\S+)$", re.MULTILINE)
_NAMED = {"grpc": "gRPC", "google": "protobuf", "etcd3": "etcd3's stubs", "psutil": "psutil", "asyncio": "asyncio"}
_PYTHON, _OURS, _STANDARD = "an interpreter that does nothing", "ours", "else of Python's library"


def measure(repetitions: int) -> str:
    """Return the table: milliseconds of the interpreter and of the imports, by owner."""
    bare_s = min(_bare_s() for _ in range(repetitions))
    spent = by_package([_start() for _ in range(repetitions)])
    return table(f"an agent's start, the least of {repetitions}", {"milliseconds": {_PYTHON: bare_s * 1e3, **spent}})


def _bare_s() -> float:
    begin_s = time.perf_counter()
    subprocess.run([sys.executable, "-c", ""], check=True)
    return time.perf_counter() - begin_s


def _start() -> str:
    command = [sys.executable, "-X", "importtime", "-c", _AGENT]
    return subprocess.run(command, capture_output=True, text=True, check=True).stderr


def by_package(starts: Sequence[str]) -> dict[str, float]:
    """Return milliseconds by owner, from `-X importtime`; without those up to `site`, which any Python has."""
    least: dict[str, int] = {}
    for output in starts:
        for line in _LINE.finditer(output.partition("| site\n")[2]):
            module, self_us = line["module"], int(line["self_us"])
            least[module] = min(self_us, least.get(module, self_us))
    spent_us: Counter[str] = Counter()
    for module, self_us in least.items():
        spent_us[_whose(module)] += self_us
    return {whose: used_us / 1e3 for whose, used_us in spent_us.items()}


def _whose(module: str) -> str:
    top = module.partition(".")[0]
    return _OURS if top.startswith("elasticjob") else _NAMED.get(top, _STANDARD)

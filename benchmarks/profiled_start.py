"""Where the time of an agent's start goes before its first trace point: the interpreter, and each package it imports.

Of several starts the least of each, since a busy machine only adds: `-X importtime` knows what every module took by
itself, by the clock.
"""

import re
import subprocess
import sys
import time
from collections import Counter

from benchmarks.profile_table import table

_AGENT = "from elasticjob_agent.cli import load; load()"
_LINE = re.compile(r"^import time:\s+(?P<self_us>\d+) \|\s+\d+ \|\s+(?P<module>\S+)$", re.MULTILINE)
_NAMED = {"grpc": "gRPC", "google": "protobuf", "etcd3": "etcd3's stubs", "psutil": "psutil", "asyncio": "asyncio"}
_PYTHON, _OURS, _STANDARD = "an interpreter that does nothing", "ours", "else of Python's library"


def measure(repetitions: int) -> str:
    """The table: milliseconds of the interpreter and of the imports, by whose they are."""
    spent = [_start() for _ in range(repetitions)]
    least = {name: min(each[name] for each in spent) for name in sorted(set().union(*spent))}
    return table(f"an agent's start, the least of {repetitions}", {"milliseconds": least})


def _start() -> dict[str, float]:
    begin_s = time.perf_counter()
    subprocess.run([sys.executable, "-c", ""], check=True)
    bare_s = time.perf_counter() - begin_s
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", _AGENT], capture_output=True, text=True, check=True
    )
    return {_PYTHON: bare_s * 1e3, **by_package(done.stderr)}


def by_package(said: str) -> dict[str, float]:
    """Milliseconds by whose it is, of what `-X importtime` says; but those up to `site`, which any Python has."""
    _, _, after = said.partition("| site\n")
    spent_us: Counter[str] = Counter()
    for line in _LINE.finditer(after):
        spent_us[_whose(line["module"])] += int(line["self_us"])
    return {whose: used_us / 1e3 for whose, used_us in spent_us.items()}


def _whose(module: str) -> str:
    top = module.partition(".")[0]
    return _OURS if top.startswith("elasticjob") else _NAMED.get(top, _STANDARD)

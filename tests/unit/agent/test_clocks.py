"""Wall clocks can jump. So no code that decides reads one; they are for reports alone."""

import ast
from collections.abc import Iterator
from pathlib import Path

import elasticjob_agent
import elasticjob_etcd

WALL = {"time.time", "time.time_ns", "time.localtime", "time.gmtime", "datetime.now", "datetime.utcnow", "time.ctime"}
MODULES = {
    "cli/run.py": {"time.time"},
    "metrics/api.py": {"time.time"},
    "multiprocessing/api.py": {"time.time_ns"},
    "multiprocessing/errors/error_handler.py": {"time.time_ns"},
    "multiprocessing/errors/failure.py": {"time.time", "time.localtime"},
    "node/node_keep.py": {"time.time_ns"},
    "node/run_node.py": {"time.time_ns"},
    "rendezvous/etcd_backend.py": {"time.time_ns"},
    "server/api.py": {"time.time_ns"},
    "supervisor/forkserver/server.py": {"time.time_ns"},
    "supervisor/worker_end.py": {"time.time_ns"},
    "torchrun/rdzv_handler.py": {"time.time_ns"},
    "tracing.py": {"time.time_ns"},
    "user_python/warm_start/elasticjob_warm_start/prefork.py": {"time.time", "time.time_ns"},
}
"""Modules that read a wall clock or pass one on, for users and records: an end, a trace, a metric, a log."""
PACKAGES = [Path(package.__path__[0]) for package in (elasticjob_agent, elasticjob_etcd)]


def wall_clocks(source: str) -> Iterator[str]:
    """Return each wall clock in `source`, called or passed on."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            name = f"{node.value.id}.{node.attr}"
            if name in WALL:
                yield name
        if isinstance(node, ast.ImportFrom) and node.module in {"time", "datetime"}:
            yield from (f"{node.module}.{alias.name}" for alias in node.names if alias.name != "timedelta")


def test_nothing_that_decides_reads_a_wall_clock() -> None:
    found = {
        str(path.relative_to(package)): set(wall_clocks(path.read_text()))
        for package in PACKAGES
        for path in package.rglob("*.py")
    }
    assert {name: clocks for name, clocks in found.items() if clocks} == MODULES


def test_a_wall_clock_would_be_found() -> None:
    assert list(wall_clocks("import time\nx = time.time\ny = time.monotonic()")) == ["time.time"]
    assert list(wall_clocks("from time import time")) == ["time.time"]

"""Clocks jump, on one host or another. So nothing that decides reads the wall clock; it is for reports alone."""

import ast
from collections.abc import Iterator
from pathlib import Path

import elasticjob_agent
import elasticjob_etcd

WALL = {"time.time", "time.time_ns", "time.localtime", "time.gmtime", "datetime.now", "datetime.utcnow", "time.ctime"}
TELLS = {
    "cli/run.py": {"time.time"},
    "metrics/api.py": {"time.time"},
    "multiprocessing/api.py": {"time.time_ns"},
    "multiprocessing/errors/error_handler.py": {"time.time_ns"},
    "multiprocessing/errors/failure.py": {"time.time", "time.localtime"},
    "node/run_node.py": {"time.time_ns"},
    "rendezvous/etcd_backend.py": {"time.time_ns"},
    "server/api.py": {"time.time_ns"},
    "supervisor/forkserver/server.py": {"time.time_ns"},
    "supervisor/supervisor.py": {"time.time_ns"},
    "torchrun/rdzv_handler.py": {"time.time_ns"},
    "tracing.py": {"time.time_ns"},
}
"""Who reads or hands on a wall clock, for what people and records are told: when a worker ended, a trace, a metric."""
ROOMS = [Path(room.__path__[0]) for room in (elasticjob_agent, elasticjob_etcd)]


def wall_clocks(source: str) -> Iterator[str]:
    """Every mention of a wall clock, called or handed on."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            name = f"{node.value.id}.{node.attr}"
            if name in WALL:
                yield name
        if isinstance(node, ast.ImportFrom) and node.module in {"time", "datetime"}:
            yield from (f"{node.module}.{alias.name}" for alias in node.names if alias.name != "timedelta")


def test_nothing_that_decides_reads_a_wall_clock() -> None:
    found = {
        str(path.relative_to(room)): set(wall_clocks(path.read_text())) for room in ROOMS for path in room.rglob("*.py")
    }
    assert {name: clocks for name, clocks in found.items() if clocks} == TELLS


def test_a_wall_clock_would_be_found() -> None:
    assert list(wall_clocks("import time\nx = time.time\ny = time.monotonic()")) == ["time.time"]
    assert list(wall_clocks("from time import time")) == ["time.time"]

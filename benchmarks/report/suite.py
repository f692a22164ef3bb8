"""`make bench`: all measurements with their peers in one command; writes docs/benchmarks.md, its plots and samples.

Each part runs in a process of its own and alternates its sides; the parts run one after the other, so that none
disturbs another. A part that fails or hangs is named on the page and in the exit code, and costs no other part its
numbers. `--quick` takes few minutes and by default writes nothing into docs/, because its numbers are few. `--again`
writes the page of a run again, from its stored samples. `--only` measures some parts; the page keeps the published
samples of the others.
"""

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.recovery.torchrun import torch_python
from benchmarks.report import goals, page, results, scaling_page
from benchmarks.report.results import Report

_ROOT = Path(__file__).parents[2]
RESULTS = Path(__file__).parent / "results"
_PUBLISHED = _ROOT / "docs" / "benchmarks" / "results.json"
LONGEST_S, CLEANS_UP_S = 1200.0, 60.0
"""A longer part hangs (in full, three times as long); so long may one take to end after a signal."""

Parts = Mapping[str, str]
MODULES: Parts = {
    "floors": "benchmarks.report.machine_floors",
    "recovery": "benchmarks.recovery.bench",
    "steps": "benchmarks.recovery.next_step.bench",
    "rendezvous": "benchmarks.rendezvous.bench",
    "planning": "benchmarks.rendezvous.planning",
    "processes": "benchmarks.processes.bench",
    "jobs": "benchmarks.operator.jobs",
    "profiles": "benchmarks.profiles.bench",
}
"""The program of each part."""
PARTS: Parts = {
    "floors": "",
    "recovery": "--longest 25",
    "steps": "--repetitions 30 --torchrun-blocks 3",
    "rendezvous": "--repetitions 4 --idle-seconds 6 --nodes 16 64 256 1000 --longest 40",
    "planning": "",
    "processes": "",
    "jobs": "",
    "profiles": "",
}
QUICK: Parts = {
    "floors": "--repetitions 2",
    "recovery": "--repetitions 2 --torchrun-repetitions 1 --idle-repetitions 1 --longest 8 --without-saving",
    "steps": "--quick",
    "rendezvous": "--repetitions 1 --idle-seconds 3 --nodes 16 64 128 --tls-nodes 64 --torchrun-nodes",
    "planning": "--repetitions 3",
    "processes": "--quick",
    "jobs": "--jobs 4 8 16 --steady-seconds 5",
    "profiles": "--nodes 128 --idle-seconds 5 --jobs 8 --steady-seconds 5",
}
FULL: Parts = {**PARTS, "steps": "", "jobs": "--jobs 100 300 1000 --steady-seconds 60"}


def run(parts: Parts, folder: Path, longest_s: float) -> Report:
    """Run all parts; return their reports as one."""
    faults = []
    for name, options in parts.items():
        print(f"\n=== {name}", flush=True)
        begin_s = time.monotonic()
        command = [sys.executable, "-m", MODULES[name], *options.split(), "--json", str(folder / f"{name}.json")]
        if fault := run_part(command, longest_s):
            faults.append(f"{name}: {fault}")
        print(f"=== {name}: {time.monotonic() - begin_s:.0f} s {fault}", flush=True)
    whole = kept(parts, folder)
    whole.failed += faults
    return whole


def kept(parts: Parts, folder: Path) -> Report:
    """Return the reports in the folder as one report."""
    whole = results.begin()
    for path in (folder / f"{name}.json" for name in parts):
        if path.exists():
            whole.add(results.load(path))
    return whole


def run_part(command: Sequence[str], longest_s: float) -> str:
    """Run it to its end, or end it and its children; return the fault."""
    with subprocess.Popen(command, cwd=_ROOT, start_new_session=True) as process:
        try:
            code = process.wait(longest_s)
        except subprocess.TimeoutExpired:
            end(process)
            return f"was not done within {longest_s:g} s"
        except BaseException:
            end(process)
            raise
    return "" if code == 0 else f"ended with {code}"


def end(process: "subprocess.Popen[bytes]") -> None:
    """Send an interrupt, so that it can save and clean up; kill it if it does not end."""
    process.send_signal(signal.SIGINT)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(CLEANS_UP_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def renewed(published: Report, new: Report, parts: str) -> Report:
    """Return the published report with the groups of another one in place of its own; it names their time."""
    groups = {each.group for each in new.series}
    series = [each for each in published.series if each.group not in groups] + new.series
    conditions = ", ".join(f"{name} {new.machine[name]}" for name in ("processor", "load"))
    machine = {**new.machine, **published.machine, f"{parts} began": f"{new.began}, {conditions}"}
    return Report(published.began, machine, series, {**published.notes, **new.notes}, [*published.failed, *new.failed])


def draw(report: Path, folder: Path) -> list[str]:
    """Draw the plots by a Python with matplotlib; return the names of the files, none without such a Python."""
    python = torch_python()
    if python is None:
        print("no plots: hack/torch-venv makes the Python that draws them")
        return []
    environment = os.environ | {"PYTHONPATH": str(_ROOT)}
    for old in folder.glob("*.svg"):
        old.unlink()
    done = subprocess.run(
        [python, "-m", "benchmarks.report.plots", report, folder], cwd=_ROOT, env=environment, check=False
    )
    if done.returncode != 0:
        print(f"{python} could not draw every plot")
    return sorted(path.name for path in folder.glob("*.svg"))


def main() -> None:
    """Parse, run, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="few repetitions, small jobs: does every piece work?")
    size.add_argument("--full", action="store_true", help="the operator at 1,000 jobs of 10 pods too (15 minutes more)")
    size.add_argument("--again", type=Path, metavar="FOLDER", help="measure nothing: the page of an earlier run anew")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--without", nargs="*", default=[], choices=list(PARTS), help="leave these out")
    which.add_argument("--only", nargs="+", choices=list(PARTS), help="these; the others as published")
    parser.add_argument("--publish", action=argparse.BooleanOptionalAction, help="write docs/ (not if quick)")
    options = parser.parse_args()
    folder = (options.again or RESULTS / datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")).absolute()
    chosen = QUICK if options.quick else FULL if options.full else PARTS
    parts = {name: each for name, each in chosen.items() if name in (options.only or PARTS)}
    parts = {name: each for name, each in parts.items() if name not in options.without}
    begin_s = time.monotonic()
    if options.again:
        report = kept(parts, folder)
    else:
        report = run(parts, folder, 3 * LONGEST_S if options.full else LONGEST_S)
        report.machine["took"] = f"{(time.monotonic() - begin_s) / 60:.0f} minutes"
    if options.only:
        report = renewed(results.load(_PUBLISHED), report, ", ".join(parts))
    publish = not options.quick if options.publish is None else options.publish
    docs = _ROOT / "docs" if publish else folder
    samples = docs / "benchmarks" / "results.json"
    report.save(samples)
    plots = draw(samples, docs / "benchmarks")
    latencies = goals.latencies((_ROOT / "docs" / "latencies.md").read_text())
    (docs / "benchmarks.md").write_text(page.page(report, plots, "benchmarks", latencies))
    if publish:
        scaled = docs / "scaling.md"
        scaled.write_text(scaling_page.renewed(scaled.read_text(), report.series))
    print(f"\nwritten: {docs / 'benchmarks.md'}, {len(plots)} plots, all samples in {samples}; each part in {folder}")
    if report.failed:
        sys.exit("\n".join(["not everything was measured:", *report.failed]))


if __name__ == "__main__":
    main()

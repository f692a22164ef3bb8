"""`make bench`: everything beside its peers in one command; writes docs/benchmarks.md, its plots and all samples.

Each part runs in a process of its own and interleaves its sides; the parts run one after the other, so that none
disturbs another. `--quick` takes 2 minutes and writes nothing into docs/, unless told so: its numbers are few.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import page, results
from benchmarks.recovery_torchrun import torch_python
from benchmarks.results import Report

_ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results"
PARTS: dict[str, tuple[str, ...]] = {
    "floors": (),
    "recovery": (),
    "rendezvous": ("--repetitions", "5", "--idle-seconds", "8", "--nodes", "16", "64", "256", "1000"),
    "planning": (),
    "processes": (),
}
QUICK: dict[str, tuple[str, ...]] = {
    "floors": ("--repetitions", "2"),
    "recovery": ("--repetitions", "2", "--torchrun-repetitions", "1", "--longest", "8", "--without-saving"),
    "rendezvous": (
        "--repetitions",
        "1",
        "--idle-seconds",
        "3",
        "--nodes",
        "16",
        "64",
        "128",
        "--tls-nodes",
        "64",
        "--torchrun-nodes",
    ),
    "planning": ("--repetitions", "3"),
    "processes": ("--quick",),
}


def run(parts: dict[str, tuple[str, ...]], folder: Path, without: Sequence[str]) -> Report:
    """All parts, and their reports as one."""
    whole = results.begin()
    for name, options in parts.items():
        if name in without:
            continue
        path = folder / f"{name}.json"
        print(f"\n=== {name}", flush=True)
        subprocess.run([sys.executable, "-m", f"benchmarks.{name}", *options, "--json", path], cwd=_ROOT, check=True)
        part = results.load(path)
        whole.series += part.series
        whole.notes.update(part.notes)
        whole.machine.update({key: value for key, value in part.machine.items() if key != "load"})
    return whole


def draw(report: Path, folder: Path) -> list[str]:
    """The plots, by a Python that has matplotlib; the names of the files, none if there is no such Python."""
    python = torch_python()
    if python is None:
        print("no plots: hack/torch-venv makes the Python that draws them")
        return []
    environment = os.environ | {"PYTHONPATH": str(_ROOT)}
    done = subprocess.run([python, "-m", "benchmarks.plots", report, folder], cwd=_ROOT, env=environment, check=False)
    if done.returncode != 0:
        print(f"no plots: {python} could not draw them")
        return []
    return sorted(path.name for path in folder.glob("*.svg"))


def main() -> None:
    """Parse, run, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="2 minutes: few repetitions, small jobs")
    parser.add_argument("--without", nargs="*", default=[], choices=list(PARTS), help="leave these out")
    parser.add_argument("--publish", action=argparse.BooleanOptionalAction, help="write docs/ (not if quick)")
    options = parser.parse_args()
    folder = RESULTS / datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    report = run(QUICK if options.quick else PARTS, folder, options.without)
    publish = not options.quick if options.publish is None else options.publish
    docs = _ROOT / "docs" if publish else folder
    kept = docs / "benchmarks" / "results.json"
    report.save(kept)
    plots = draw(kept, docs / "benchmarks")
    (docs / "benchmarks.md").write_text(page.page(report, plots, "benchmarks"))
    print(f"\nwritten: {docs / 'benchmarks.md'}, {len(plots)} plots, all samples in {kept}; each part in {folder}")


if __name__ == "__main__":
    main()

"""`make bench-keep`: all measurements of Keep, one after the other; writes docs/keep-numbers.md.

Each part runs in a process of its own. A part that fails or hangs is named on the page and in the exit code, and costs
no other part its numbers. `--quick` shows that every piece works, and writes nothing into docs/.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.keep.page import page
from benchmarks.report import results
from benchmarks.report.suite import run_part

_ROOT = Path(__file__).parents[2]
_LONGEST_S = 400.0
PARTS = {
    "pause": ("How long training pauses for a save", "One thread saves; the forms take turns."),
    "transfer": ("A part on its way", "Without a limit of the rate. Sender and receiver share this machine."),
    "step_time": (
        "A training step beside a copy",
        "The slowdown is the median of a step beside a copy, over one alone right before and after it.",
    ),
    "next_step": ("From a death to the next training step", "All sides start their workers warm."),
    "rounds": ("Rounds and etcd", "The same job with Keep and without it, at the same time."),
    "memory": ("Memory", "Each node publishes faster than copies are made. A part is the unit."),
    "fan_out": ("Many new nodes", "All fetch the step of one node at once. The size is the number of new nodes."),
    "crowd": ("1,000 nodes, by counts", "The product's members on a real etcd, without workers."),
}
"""Each part with the title of its table and a sentence about it."""


def main() -> None:
    """Parse, run, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few repetitions, small sizes: does every piece work?")
    parser.add_argument("--only", nargs="*", default=list(PARTS), choices=list(PARTS), help="these parts only")
    parser.add_argument("--page", type=Path, help="write the page there")
    options = parser.parse_args()
    began_s, whole, tables = time.monotonic(), results.begin(), []
    with tempfile.TemporaryDirectory(prefix="bench-keep-") as folder:
        for name in options.only:
            path = Path(folder, f"{name}.json")
            print(f"\n=== {name}", flush=True)
            words = ["--json", str(path), *(["--quick"] if options.quick else [])]
            fault = run_part([sys.executable, "-m", f"benchmarks.keep.{name}", *words], _LONGEST_S)
            part = results.load(path) if path.exists() else results.begin()
            whole.add(part)
            whole.failed += [f"{name}: {fault}"] if fault and not part.failed else []
            tables.append((*PARTS[name], part.series))
            print(f"=== {name}: {time.monotonic() - began_s:.0f} s so far", flush=True)
    whole.machine["took"] = f"{(time.monotonic() - began_s) / 60:.0f} minutes"
    target = options.page or (None if options.quick else _ROOT / "docs" / "keep-numbers.md")
    if target:
        target.write_text(page(whole, tables))
        print(f"\nwritten: {target}")
    if whole.failed:
        sys.exit("\n".join(["not everything was measured:", *whole.failed]))


if __name__ == "__main__":
    main()

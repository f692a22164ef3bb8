"""`make bench-check`: counts that a noisy machine cannot fool, against the committed baseline; 30 seconds.

No time is looked at: etcd's own count of requests and bytes for each act of a job, the API server's writes a job
needs, reads and writes of a tee, wake-ups of an idle agent, function calls of the planner and how they grow with the
number of nodes. What is above its baseline by more than its tolerance is a regression, and the exit code 1. What is
far below is said, so that the baseline follows (`--update` writes it anew, for the commit that explains it).
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.counts import COUNTERS
from benchmarks.counts.record import Count

BASELINE = Path(__file__).parent / "baseline.json"


def verdict(count: Count, baseline: float | None) -> str:
    """Empty if it is as it was; else what is wrong with it."""
    if baseline is None:
        return "no baseline"
    if count.value > count.limit(baseline):
        return f"regressed: at most {count.limit(baseline):g} is tolerated"
    return "improved: --update" if count.limit(count.value) < baseline else ""


def failed(verdicts: Sequence[str]) -> bool:
    """An improvement fails nothing."""
    return any(said and not said.startswith("improved") for said in verdicts)


def show(counts: Sequence[Count], baseline: Mapping[str, float]) -> list[str]:
    """A line a count, and its verdict; the verdicts."""
    verdicts = [verdict(count, baseline.get(count.name)) for count in counts]
    print(f"{'count':<64} {'baseline':>9} {'now':>9}")
    for count, said in zip(counts, verdicts, strict=True):
        before = f"{baseline[count.name]:9.5g}" if count.name in baseline else " " * 9
        print(f"{count.name:<64} {before} {count.value:9.5g}  {said}".rstrip())
    return verdicts


def main() -> None:
    """Parse, count, compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--update", action="store_true", help="write the baseline")
    parser.add_argument("--only", default="", help="only counters whose name contains this: " + ", ".join(COUNTERS))
    options = parser.parse_args()
    counts = [count for name, take in COUNTERS.items() if options.only in name for count in take()]
    baseline: dict[str, float] = json.loads(BASELINE.read_text()) if BASELINE.exists() else {}
    verdicts = show(counts, baseline)
    if options.update:
        now = {count.name: round(count.value, 4) for count in counts}
        BASELINE.write_text(json.dumps({**baseline, **now}, indent=1) + "\n")
    elif failed(verdicts):
        sys.exit("bench-check: this does more than before; if it must, --update the baseline and say why")


if __name__ == "__main__":
    main()

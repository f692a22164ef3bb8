"""`make bench-check`: counts that a noisy machine cannot fool, against the committed baseline; about a minute.

No time is looked at: instructions of the pure parts, system calls of a worker's life, etcd's own count of requests and
bytes for each act of a job, the API server's writes a job needs, reads and writes of a tee, wake-ups of an idle agent,
function calls of the planner and how they grow with the number of nodes. What is above its baseline by more than its
tolerance is a regression, and the exit code 1. What is far below is said, so that the baseline follows (`--update`
writes it anew, for the commit that explains it). What could not be counted is said count by count, and fails in CI.
"""

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.counts import calls, etcd_work, instructions, kube_writes, processes, syscalls
from benchmarks.counts.record import Count, NotTaken

COUNTERS: Mapping[str, Callable[[], list[Count]]] = {
    "calls": calls.take,
    "instructions": instructions.take,
    "system calls": syscalls.take,
    "etcd": etcd_work.take,
    "kube": kube_writes.take,
    "processes": processes.take,
}
BASELINE = Path(__file__).parent / "baseline.json"
_PYTHON = f"{platform.python_implementation()} {platform.python_version()}"
INTERPRETER = f"{_PYTHON} {platform.python_compiler()} {platform.machine()}"
_NOT = "NOT "
"""Begins what is said of a count that could not be compared."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """What the counts were, and the Python of those that depend on it."""

    interpreter: str
    counts: Mapping[str, float]

    @staticmethod
    def load(path: Path) -> "Baseline":
        """From its file; empty without one."""
        said = json.loads(path.read_text()) if path.exists() else {}
        return Baseline(str(said.pop("interpreter", INTERPRETER)), said)

    def renewed(self, counts: Sequence[Count]) -> str:
        """Its file with these counts; the interpreter is this one if one of them depends on it."""
        interpreter = INTERPRETER if any(count.of_interpreter for count in counts) else self.interpreter
        now = {count.name: round(count.value, 4) for count in counts}
        return json.dumps({"interpreter": interpreter, **self.counts, **now}, indent=1) + "\n"


def verdict(count: Count, baseline: float | None) -> str:
    """Empty if it is as it was; else what is wrong with it."""
    if baseline is None:
        return "no baseline"
    if count.value > count.limit(baseline):
        return f"regressed: at most {count.limit(baseline):g} is tolerated"
    return "improved: --update" if count.limit(count.value) < baseline else ""


def compared(count: Count, known: Baseline) -> str:
    """The verdict, or why there can be none."""
    if count.of_interpreter and known.interpreter != INTERPRETER:
        return f"{_NOT}COMPARED: this is {INTERPRETER}, the baseline is of {known.interpreter}"
    return verdict(count, known.counts.get(count.name))


def failed(verdicts: Sequence[str], *, strict: bool = True) -> bool:
    """An improvement fails nothing; what could not be compared does where that is strict."""
    fine = ("improved",) if strict else ("improved", _NOT)
    return any(said and not said.startswith(fine) for said in verdicts)


def take(only: str) -> tuple[list[Count], dict[str, str]]:
    """The counts of the counters so named, and those that cannot count here, with the reason."""
    counts, missing = [], {}
    for name, counter in COUNTERS.items():
        if only in {"", name}:
            try:
                counts += counter()
            except NotTaken as why:
                missing[name] = f"{_NOT}TAKEN: {why}"
    return counts, missing


def untaken(names: Sequence[str], missing: Mapping[str, str]) -> dict[str, str]:
    """Of each name of the baseline that nobody has counted: why. One that nobody counts any more is a hole."""
    gone = "gone: nobody counts it; a change that means it takes it out of the baseline"
    reasons = {name: next((why for counter, why in missing.items() if counter in name), gone) for name in names}
    return reasons or dict(missing)


def show(counts: Sequence[Count], absent: Mapping[str, str], known: Baseline) -> list[str]:
    """A line a count, and its verdict; the verdicts."""
    rows = [(count.name, f"{count.value:9.5g}", compared(count, known)) for count in counts]
    rows += [(name, " " * 9, why) for name, why in absent.items()]
    width = max(len(name) for name, _, _ in rows)
    print(f"{'count':<{width}} {'baseline':>9} {'now':>9}")
    for name, now, said in rows:
        before = f"{known.counts[name]:9.5g}" if name in known.counts else " " * 9
        print(f"{name:<{width}} {before} {now}  {said}".rstrip())
    return [said for _, _, said in rows]


def main() -> None:
    """Parse, count, compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--update", action="store_true", help="write the baseline")
    parser.add_argument("--only", default="", choices=["", *COUNTERS], help="only this counter")
    parser.add_argument("--baseline", type=Path, default=BASELINE, help="another file than the committed one")
    options = parser.parse_args()
    counts, missing = take(options.only)
    known = Baseline.load(options.baseline)
    names = known.counts.keys() - {count.name for count in counts}
    if options.only:
        names = {name for name in names if any(counter in name for counter in missing)}
    verdicts = show(counts, untaken(sorted(names), missing), known)
    if options.update:
        options.baseline.write_text(known.renewed(counts))
    elif failed(verdicts, strict=False):
        sys.exit("bench-check: not as the baseline has it; if it must do more than before, --update it and say why")
    elif failed(verdicts, strict=os.environ.get("CI") == "true"):
        sys.exit("bench-check: in CI everything must be counted and compared")


if __name__ == "__main__":
    main()

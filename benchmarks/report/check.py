"""`make bench-check`: counts that a noisy machine cannot change, against the committed baseline; about a minute.

It measures no time. It counts instructions of the pure parts, system calls of a worker's life, and API writes for a
job. It counts etcd's requests and bytes for each act of a job, and those that Keep adds. It counts function calls of
the planner with their growth. And it counts reads and writes of a tee, and wake-ups of an idle agent. A count above its
baseline by more than its tolerance is a regression, and the exit code is 1. A count far below is reported, so that the
baseline can follow (`--update` writes it again, for the commit that explains it). A count that could not be taken is
reported, and fails in CI.
"""

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.counts import calls, etcd_work, instructions, keep_work, kube_writes, processes, syscalls
from benchmarks.counts.record import Count, NotTaken

COUNTERS: Mapping[str, Callable[[], list[Count]]] = {
    "calls": calls.take,
    "instructions": instructions.take,
    "system calls": syscalls.take,
    "etcd": etcd_work.take,
    "Keep": keep_work.take,
    "kube": kube_writes.take,
    "processes": processes.take,
}
BASELINE = Path(__file__).parent / "baseline.json"
_PYTHON = f"{platform.python_implementation()} {platform.python_version()}"
INTERPRETER = f"{_PYTHON} {platform.python_compiler()} {platform.machine()}"
_NOT = "NOT "
"""The prefix of the verdict on a count that could not be compared."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """The earlier counts, and the Python of those that depend on it."""

    interpreter: str
    counts: Mapping[str, float]

    @staticmethod
    def load(path: Path) -> "Baseline":
        """Read it from its file; empty without one."""
        values = json.loads(path.read_text()) if path.exists() else {}
        return Baseline(str(values.pop("interpreter", INTERPRETER)), values)

    def renewed(self, counts: Sequence[Count]) -> str:
        """Return its file with these counts; the interpreter is this one if one of them depends on it."""
        interpreter = INTERPRETER if any(count.of_interpreter for count in counts) else self.interpreter
        now = {count.name: round(count.value, 4) for count in counts}
        return json.dumps({"interpreter": interpreter, **self.counts, **now}, indent=1) + "\n"


def verdict(count: Count, baseline: float | None) -> str:
    """Return an empty text for an unchanged count, else the fault."""
    if baseline is None:
        return "no baseline"
    if count.value > count.limit(baseline):
        return f"regressed: at most {count.limit(baseline):g} is tolerated"
    return "improved: --update" if count.limit(count.value) < baseline else ""


def compared(count: Count, known: Baseline) -> str:
    """Return the verdict, or the reason why there is none."""
    if count.of_interpreter and known.interpreter != INTERPRETER:
        return f"{_NOT}COMPARED: this is {INTERPRETER}, the baseline is of {known.interpreter}"
    return verdict(count, known.counts.get(count.name))


def failed(verdicts: Sequence[str], *, strict: bool = True) -> bool:
    """Return whether a verdict fails: an improvement never does, an uncompared count does if `strict`."""
    fine = ("improved",) if strict else ("improved", _NOT)
    return any(each and not each.startswith(fine) for each in verdicts)


def take(only: str) -> tuple[list[Count], dict[str, str]]:
    """Return the counts of the named counters, and those that cannot count here, with the reason."""
    counts, missing = [], {}
    for name, counter in COUNTERS.items():
        if only in {"", name}:
            try:
                counts += counter()
            except NotTaken as why:
                missing[name] = f"{_NOT}TAKEN: {why}"
    return counts, missing


def untaken(names: Sequence[str], missing: Mapping[str, str]) -> dict[str, str]:
    """Return the reason for each name of the baseline that was not counted. A name without a counter is a hole."""
    missing_counter = "gone: no counter has it; an intended removal deletes it from the baseline"
    reasons = {
        name: next((why for counter, why in missing.items() if counter in name), missing_counter) for name in names
    }
    return reasons or dict(missing)


def show(counts: Sequence[Count], absent: Mapping[str, str], known: Baseline) -> list[str]:
    """Print a line for each count, with its verdict; return the verdicts."""
    rows = [(count.name, f"{count.value:9.5g}", compared(count, known)) for count in counts]
    rows += [(name, " " * 9, why) for name, why in absent.items()]
    width = max(len(name) for name, _, _ in rows)
    print(f"{'count':<{width}} {'baseline':>9} {'now':>9}")
    for name, now, verdict_ in rows:
        before = f"{known.counts[name]:9.5g}" if name in known.counts else " " * 9
        print(f"{name:<{width}} {before} {now}  {verdict_}".rstrip())
    return [verdict_ for _, _, verdict_ in rows]


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

"""Compare warm with cold rounds, in turns: `python -m tests.frameworks.warm_start.soak PROGRAM --rounds 300`.

Prints how often each kind of round had each result and each end. The exit code is 1 if any two results differ, or if a
round ended in a way that verdict.py does not allow. Standard error and core dumps of bad ends are kept in the folder.
"""

import argparse
import asyncio
import math
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.frameworks.warm_start.rounds import RoundResult, Rounds, open_rounds
from tests.frameworks.warm_start.verdict import OWN_ENDS, Verdict, judge

ROOT = Path(__file__).resolve().parents[3]
_MAX_CORES = 4


@dataclass
class Tally:
    """Counts rounds by kind, result and end."""

    folder: Path
    own_ends: Collection[str] = ()
    """Bad ends that the framework itself is known to have; see verdict.py."""
    counts: Counter[tuple[str, tuple[str, ...], tuple[str, ...]]] = field(default_factory=Counter)
    seconds: dict[str, list[float]] = field(default_factory=dict)

    def add(self, result: RoundResult) -> None:
        """Count one round, and keep what it left if it did not succeed."""
        self.counts[result.kind, result.results, result.ends] += 1
        self.seconds.setdefault(result.kind, []).append(result.took_s)
        if not result.has_succeeded:
            self._keep(result)

    def _keep(self, result: RoundResult) -> None:
        number = self.counts.total()
        texts = [
            f"rank {rank}: {end}\n{text}"
            for rank, (end, text) in enumerate(zip(result.ends, result.stderr, strict=True))
        ]
        (self.folder / f"round-{number}-{result.kind}.txt").write_text("\n".join(texts))
        kept = len(list(self.folder.glob("round-*.core")))
        for core in self.folder.glob("core*"):
            if kept < _MAX_CORES:
                core.rename(self.folder / f"round-{number}-{core.name}.core")
            else:
                core.unlink()

    def rounds_of(self, kind: str) -> int:
        """Return the number of rounds of this kind."""
        return sum(count for (each, _, _), count in self.counts.items() if each == kind)

    @property
    def verdict(self) -> Verdict:
        """Return what these rounds show."""
        return judge(self.counts, self.own_ends)

    def show(self) -> str:
        """Return a line for each kind, result and end."""
        names = {results: place for place, results in enumerate(dict.fromkeys(lines for _, lines, _ in self.counts))}
        rows = [
            f"{count:5} {kind}: result {names[lines]}; {', '.join(ends)}"
            for (kind, lines, ends), count in sorted(self.counts.items())
        ]
        return "\n".join([*rows, *(f"result {place}: {' '.join(lines)}" for lines, place in names.items())])


async def compare(
    program: str,
    python: Path,
    folder: Path,
    *,
    cold: int,
    warm: int,
    more: Mapping[str, str] | None = None,
    longest_s: float = math.inf,
) -> Tally:
    """Run so many cold and warm rounds in turns, and the rest of the larger number alone; end after `longest_s`."""
    tally = Tally(folder, OWN_ENDS.get(program, ()))
    until_s = time.monotonic() + longest_s
    async with open_rounds(program, python, folder, more=more) as rounds:
        tally.add(await rounds.record())
        for turn in range(max(cold, warm)):
            if time.monotonic() > until_s:
                break
            await _take_turn(rounds, tally, is_cold=turn < cold, is_warm=turn < warm)
    return tally


async def _take_turn(rounds: Rounds, tally: Tally, *, is_cold: bool, is_warm: bool) -> None:
    if is_cold:
        tally.add(await rounds.cold())
    if is_warm:
        tally.add(await rounds.warm())
    if sys.stderr.isatty() or tally.rounds_of("warm") % 10 == 0:
        print(
            f"{tally.rounds_of('cold')} cold, {tally.rounds_of('warm')} warm",
            *tally.verdict.failures,
            *tally.verdict.remarks,
            sep="; ",
            file=sys.stderr,
            flush=True,
        )


def main() -> None:
    """Parse, run, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "program", choices=sorted(path.stem for path in (Path(__file__).parent / "programs").glob("*.py"))
    )
    parser.add_argument("--rounds", type=int, default=10, help="rounds of each kind")
    parser.add_argument("--cold", type=int, help="another number of cold rounds")
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no further turn after this time")
    parser.add_argument("--python", type=Path, help="an interpreter with the imports; default: hack/frameworks-venv")
    parser.add_argument("--folder", type=Path, default=Path("dist/warm-start"), help="what failed rounds leave")
    options = parser.parse_args()
    python = options.python or Path(subprocess.check_output([ROOT / "hack/frameworks-venv"], text=True).strip())
    folder = options.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    resource.setrlimit(resource.RLIMIT_CORE, (-1, -1))
    cold = options.rounds if options.cold is None else options.cold
    tally = asyncio.run(
        compare(options.program, python, folder, cold=cold, warm=options.rounds, longest_s=60 * options.minutes)
    )
    print(tally.show())
    for kind, seconds in tally.seconds.items():
        print(f"{kind}: {sorted(seconds)[len(seconds) // 2]:.2f} s a round (median), {max(seconds):.2f} s (longest)")
    for remark in tally.verdict.remarks:
        print(f"allowed: {remark}")
    sys.exit("\n".join(tally.verdict.failures) or 0)


if __name__ == "__main__":
    main()

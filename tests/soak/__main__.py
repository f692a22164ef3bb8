"""`make soak`: several jobs at once, a random fault every few seconds, for some minutes; then all invariants must hold.

    python -m tests.soak [--minutes 20] [--jobs 5] [--every 3.0] [--seed N]

The exit code is 0 if every job was trained to its end with the right result, whatever faults it had. Nothing may be
left at the end either. No pod, key, lease, process or temporary file may be left, and operator and node must hold no
more than new ones. Otherwise the code is 1, with the seed, the fault, and the folder of all logs.
"""

import argparse
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from testing.waiting import eventually
from tests.soak.fault_injector import describe, draw
from tests.soak.job_generator import JobBroken, SoakJob
from tests.soak.leaks import Use, excess, require_none
from tests.soak.stack import Stage, open_stage

_LAST_JOBS_S = 360.0
_REST_S = 60.0
_PAUSE_S = 0.3


def main(arguments: list[str]) -> int:
    """Run the soak; return the exit code."""
    parser = argparse.ArgumentParser(prog="soak", description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--jobs", type=int, default=5)
    parser.add_argument("--every", type=float, default=3.0, help="seconds between two faults, on average")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    options = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="soak-"))
    (folder / "tmp").mkdir()
    os.environ["TMPDIR"] = str(folder / "tmp")
    print(f"soak: {options.jobs} jobs, {options.minutes:g} minutes, seed {options.seed}, logs in {folder}", flush=True)
    try:
        with open_stage(folder) as stage:
            _soak(stage, options)
    except (JobBroken, AssertionError) as error:
        print(f"soak: FAILED with seed {options.seed}: {error}\nlogs are in {folder}", flush=True)
        return 1
    shutil.rmtree(folder)
    return 0


def _soak(stage: Stage, options: argparse.Namespace) -> None:
    _train_one(stage)
    new = _uses(stage)
    rng = random.Random(options.seed)
    lives = [SoakJob(stage.rig, n, random.Random(f"{options.seed}/{n}"), 300, 0.05) for n in range(options.jobs)]
    began_s = time.monotonic()
    counts = _inject_faults(stage, lives, rng, until_s=began_s + options.minutes * 60, every_s=options.every)
    print("soak: no more faults; the last jobs train to their end", flush=True)
    _finish(lives)
    took_s = time.monotonic() - began_s
    _require_nothing_left(stage, new)
    ended, rounds = sum(life.ended for life in lives), sum(life.rounds for life in lives)
    print(
        f"soak: {counts.total()} faults survived in {took_s:.0f} s ({describe(counts)}); "
        f"{ended} jobs trained to the right result in {rounds} rounds, "
        f"{sum(x.restarts for x in lives)} restarts, {sum(x.node_losses for x in lives)} node losses, "
        f"{sum(x.replacements for x in lives)} pod replacements; nothing is left behind",
        flush=True,
    )


def _inject_faults(
    stage: Stage, lives: list[SoakJob], rng: random.Random, *, until_s: float, every_s: float
) -> Counter[str]:
    counts: Counter[str] = Counter()
    next_s = time.monotonic() + every_s
    while (now_s := time.monotonic()) < until_s:
        for life in lives:
            life.check(now_s, again=True)
        if now_s >= next_s:
            strike = draw(rng)
            if line := strike(stage, rng.choice(lives), rng):
                counts[strike.__name__] += 1
                print(f"{until_s - now_s:6.0f} s left: {line}", flush=True)
            next_s = time.monotonic() + rng.expovariate(1 / every_s)
        time.sleep(_PAUSE_S)
    return counts


def _finish(lives: list[SoakJob]) -> None:
    def all_done() -> bool:
        busy = [life.check(time.monotonic(), again=False) for life in lives]  # each must be checked
        return not any(busy)

    eventually(all_done, within_s=_LAST_JOBS_S, what="the end of the last jobs", pause_s=_PAUSE_S)


def _require_nothing_left(stage: Stage, new: dict[str, Use]) -> None:
    """Check counts until they are right: deletions take a moment, and connections stay open for 15 s."""
    for what, left in stage.leftovers().items():
        require_none(what, left, within_s=_REST_S)
    require_none("a leak", lambda: _excess(stage, new), within_s=_REST_S)
    print(f"soak: at rest: {_uses(stage)}; new: {new}; etcd {stage.etcd_bytes() >> 10} KiB", flush=True)


def _uses(stage: Stage) -> dict[str, Use]:
    return {"operator": Use.of(stage.operator_pid), "node": Use.of(stage.node_pid)}


def _excess(stage: Stage, new: dict[str, Use]) -> list[str]:
    return [line for name, old in _uses(stage).items() for line in excess(name, old, new[name])]


def _train_one(stage: Stage) -> None:
    """Train one job without faults, so that the processes have loaded all that they need."""
    life = SoakJob(stage.rig, 999, random.Random(0), 100, 0.01)

    def done() -> bool:
        return not life.check(time.monotonic(), again=not life.ended)

    eventually(done, within_s=_LAST_JOBS_S, what="one job without faults", pause_s=_PAUSE_S)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""`python -m benchmarks.keep.transfer`: a part of 512 MiB is taken, copied to a peer, restored here, and fetched.

Real keepers on this machine, without a limit of the rate, in turns without and with TLS. So sender and receiver share
its processors and its memory. The floor is one stream of the same bytes between two files in memory. It has neither
names nor sums nor rules: `read`, `send`, loopback, `recv`, `write`. With TLS the sender maps its file for `sendall`.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

from benchmarks.keep.keepers import MIB, TimedGroup, draft_of, time_until, timed, timed_group
from benchmarks.report import results
from benchmarks.report.results import FLOOR, OURS, Report, Series
from elasticjob_api.kept_steps import KeptStep

GROUP = "keep"
TAKE, SEAL, HERE = (
    "a part is taken, from its rename",
    "a round is sealed",
    "a step that is here is ready for the workers",
)
_TARGETS = {TAKE: 0.005, HERE: 0.005}
_NEW_BYTES_TARGETS = {"copied to a peer": 0.9, "copied to a peer, TLS": 2.5, "fetched by a new node": 0.9}
_SETTLE_S = 0.3


async def measure(size: int, *, is_secure: bool) -> dict[str, float]:
    """Return the seconds of each act, in a new group of keepers."""
    suffix = ", TLS" if is_secure else ""
    async with timed_group(is_secure=is_secure) as group:
        first, second = await group.add(0), await group.add(1)
        await group.round(first, second)
        step = group.step(1)
        found = await _publish(group, size, step, suffix)
        found[SEAL] = await timed(first.client.seal())
        third = await group.add(1)
        await group.lose(second)
        await group.round(first, third)
        found[HERE] = group.restored_s[first]
        found[f"fetched by a new node{suffix}"] = group.restored_s[third]
        return found


async def _publish(group: TimedGroup, size: int, step: KeptStep, suffix: str) -> dict[str, float]:
    first, second = group.members
    other = draft_of(second, "small", MIB)
    other.rename(second.incoming / "step-1.1-of-2")
    draft = draft_of(first, "large", size)
    await asyncio.sleep(_SETTLE_S)
    began_s = time.monotonic()
    draft.rename(first.incoming / "step-1.0-of-2")
    taken_s = await time_until(lambda: 0 in first.client.holdings.get(step, ()), since_s=began_s)
    copied_s = await time_until(lambda: 0 in second.client.holdings.get(step, ()), since_s=began_s)
    await group.until_committed(step)
    return {TAKE: taken_s, f"copied to a peer{suffix}": copied_s}


def floor(size: int, *, is_secure: bool) -> float:
    """Return the seconds of one plain stream of so many bytes."""
    command = [sys.executable, "-m", "benchmarks.keep.stream_floor", str(size), "tls" if is_secure else "plain"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return float(json.loads(done.stdout)["seconds"])


def series_of(samples: dict[tuple[str, str], list[float]], size: int, *, is_full: bool) -> list[Series]:
    """Return a row for each act and side; targets hold for the full size only."""
    targets = {**_TARGETS, **_NEW_BYTES_TARGETS} if is_full else {}
    named = f"{size // MIB} MiB"
    return [
        Series(GROUP, f"{named} {name}" if "copied" in name or "fetched" in name else name, side, tuple(values),
               target=targets.get(name) if side == OURS else None)
        for (name, side), values in samples.items()
    ]  # fmt: skip


def run(options: argparse.Namespace, report: Report) -> None:
    """Measure all sides in turns; failures are noted in the report."""
    samples: dict[tuple[str, str], list[float]] = defaultdict(list)
    for _ in range(options.repetitions):
        for is_secure in (False, True):
            suffix = ", TLS" if is_secure else ""
            with results.attempt(report, f"transfer{suffix}"):
                for name, value in asyncio.run(measure(options.size * MIB, is_secure=is_secure)).items():
                    samples[name, OURS].append(value)
                stream_s = floor(options.size * MIB, is_secure=is_secure)
                for name in (f"copied to a peer{suffix}", f"fetched by a new node{suffix}"):
                    samples[name, FLOOR].append(stream_s)
    report.series = series_of(samples, options.size * MIB, is_full=not options.quick)


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--size", type=int, default=512, help="MiB of a part")
    parser.add_argument("--quick", action="store_true", help="one repetition with 64 MiB: does every piece work?")
    parser.add_argument("--json", type=Path, help="keep all samples there")
    options = parser.parse_args()
    if options.quick:
        options.repetitions, options.size = 1, 64
    report = results.begin()
    with results.keep(report, options.json):
        run(options, report)
        print(results.table(report.series))


if __name__ == "__main__":
    main()

"""`python -m benchmarks.keep.step_time`: a training step beside a copy to a peer, at several rates and with TLS.

The step is a product of matrices on one thread, in a process of its own. Sender and receiver run on the same machine:
so does every node, which sends its own part and gets that of another one. Each copy has its own steps alone, before
and after it, in the same process. The speed of the machine changes more in a minute than a copy slows a step.
"""

import argparse
import asyncio
import os
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from pathlib import Path

import numpy as np

from benchmarks.keep.keepers import MIB, TimedGroup, draft_of, time_until, timed_group
from benchmarks.report import results
from benchmarks.report.results import OURS, Report, Series
from elasticjob_api import constants

GROUP = "keep"
ALONE = "a step alone"
_SLOWDOWN_TARGET = 1.10
_LEAST_STEPS, _FIRST_STEPS = 40, 3
_MATRIX = 700
_DEFAULT = constants.KEEP_BANDWIDTH_BYTES
_RATES = (_DEFAULT // 4, _DEFAULT // 2, _DEFAULT)
_SETTLE_S = 0.5
_PIPE = asyncio.subprocess.PIPE
_SECONDS = 3.0
"""How long a copy lasts."""


def train() -> None:
    """Do steps until the end of stdin; print when each ended and its seconds. This is the other process."""
    left, right = np.random.default_rng(0).random((2, _MATRIX, _MATRIX))
    os.set_blocking(0, False)
    while os.get_blocking(0) or _is_open():
        began_s = time.monotonic()
        left @ right
        ended_s = time.monotonic()
        print(ended_s, ended_s - began_s, flush=True)


def _is_open() -> bool:
    try:
        return os.read(0, 1) != b""
    except BlockingIOError:
        return True


async def steps_around(group: TimedGroup, seconds: float, least: int) -> tuple[float, float]:
    """Return the median of a step alone, and that of one beside a copy of so many seconds."""
    publish = await _prepared(group, int(group.bandwidth * seconds))
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    command = (sys.executable, "-c", "from benchmarks.keep.step_time import train; train()")
    trainer = await asyncio.create_subprocess_exec(*command, stdin=_PIPE, stdout=_PIPE, env=environment)
    assert trainer.stdout is not None
    assert trainer.stdin is not None
    for _ in range(_FIRST_STEPS):
        await trainer.stdout.readline()
    await asyncio.sleep(seconds / 2)
    begins_s = time.monotonic()
    await publish()
    ends_s = time.monotonic()
    await asyncio.sleep(seconds / 2)
    trainer.stdin.close()
    output, _ = await trainer.communicate()
    steps = [(float(ended_s), float(took_s)) for ended_s, took_s in map(bytes.split, output.splitlines())]
    beside = [took_s for ended_s, took_s in steps if begins_s <= ended_s - took_s and ended_s <= ends_s]
    alone = [took_s for ended_s, took_s in steps if ended_s <= begins_s or ended_s - took_s >= ends_s]
    if min(len(beside), len(alone)) < least:
        raise AssertionError(f"only {len(beside)} steps were done beside the copy, and {len(alone)} alone")
    return statistics.median(alone), statistics.median(beside)


async def _prepared(group: TimedGroup, size: int) -> Callable[[], Awaitable[float]]:
    """Write a part of so many bytes; return a function that publishes it, and ends when the peer has it."""
    first, second = group.members
    step = group.step(1)
    draft = await asyncio.to_thread(draft_of, first, "large", size)
    draft_of(second, "small", MIB).rename(second.incoming / "step-1.1-of-2")
    await asyncio.sleep(_SETTLE_S)

    async def publish() -> float:
        draft.rename(first.incoming / "step-1.0-of-2")
        return await time_until(lambda: 0 in second.client.holdings.get(step, ()))

    return publish


async def measure(options: argparse.Namespace, report: Report) -> None:
    """Measure all sides in turns; failures are noted in the report."""
    samples: dict[str, list[float]] = defaultdict(list)
    kinds = [(rate, is_secure) for is_secure in (False, True) for rate in options.rates]
    for _ in range(options.repetitions):
        for rate, is_secure in kinds:
            name = f"a step beside a copy of {rate // MIB} MiB/s{', TLS' if is_secure else ''}: slowdown"
            with results.attempt(report, name):
                async with timed_group(bandwidth=rate, is_secure=is_secure) as group:
                    await group.round(await group.add(0), await group.add(1))
                    alone_s, beside_s = await steps_around(group, options.seconds, options.least)
                samples[ALONE].append(alone_s)
                samples[name].append(beside_s / alone_s)
    report.series = [
        Series(GROUP, name, OURS, tuple(values), unit="s" if name == ALONE else "×", target=_target(name))
        for name, values in samples.items()
    ]


def _target(name: str) -> float | None:
    return _SLOWDOWN_TARGET if f" {_DEFAULT // MIB} MiB/s: " in name else None


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=_SECONDS, help="how long each copy lasts")
    parser.add_argument("--rates", type=int, nargs="*", default=_RATES, help="bytes a second")
    parser.add_argument("--least", type=int, default=_LEAST_STEPS, help="steps without which a copy does not count")
    parser.add_argument("--quick", action="store_true", help="one repetition at one rate: does every piece work?")
    parser.add_argument("--json", type=Path, help="keep all samples there")
    options = parser.parse_args()
    if options.quick:
        options.repetitions, options.rates, options.least = 1, (_DEFAULT // 8,), 3
    report = results.begin()
    with results.keep(report, options.json):
        asyncio.run(measure(options, report))
        print(results.table(report.series))


if __name__ == "__main__":
    main()

"""`python -m benchmarks.recovery.next_step.bench`: from an event to the next training step of all ranks.

A worker of a training job is killed, and the time ends when each rank of the next round has trained a step. So the
time includes the imports of the script, its process group and its model. The sides take turns: our agents with warm
starts, our agents without, and torchrun. One job of each side is killed a few times before the next side's turn.
"""

import argparse
import functools
import math
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.recovery.next_step.jobs import StartedCold, TrainingJob, local_run_job, our_job, torchrun_job
from benchmarks.recovery.next_step.parts import PARTS, Recovery
from benchmarks.recovery.torchrun import TORCHRUN, torch_python, torch_version
from benchmarks.report import etcds, results
from benchmarks.report.etcds import Server
from benchmarks.report.results import OURS, Report, Series

GROUP, PARTS_GROUP = "steps", "steps-parts"
COLD = "ours, no warm start"
TARGET_S = 0.2
KILLS = 5
"""Kills of one job, one after the other."""
_HACK = Path(__file__).parents[3] / "hack"

Act = Callable[[TrainingJob], Recovery | None]


@dataclass(frozen=True)
class Scenario:
    """One row: a script, the nodes of its job, and what happens to it."""

    name: str
    script: str
    act: Act
    nnodes: str = "1"
    nproc: int = 2
    nodes: int = 1
    times: int = KILLS
    """How often it happens to one job."""
    share: float = 1.0
    """Of the requested repetitions."""
    is_new: bool = False
    """Whether a worker starts for the first time, which is never warm."""
    is_partly_warm: bool = False
    """Whether the workers import a package themselves, because it may not be imported ahead."""
    is_local_run: bool = False
    """Whether `elasticjob run` runs the job."""
    with_torchrun: bool = False
    target_s: float | None = None


def _kill(job: TrainingJob) -> Recovery | None:
    return job.kill_worker(1)


SCENARIOS = (
    Scenario("DDP, worker SIGKILLed", "ddp", _kill, with_torchrun=True, target_s=TARGET_S),
    Scenario("FSDP2, worker SIGKILLed", "fsdp", _kill, share=0.2),
    Scenario("Trainer, worker SIGKILLed", "trainer", _kill, share=0.2),
    Scenario("XGBoost, worker SIGKILLed", "xgboost_rabit", _kill, share=0.2),
    Scenario("JAX, worker SIGKILLed", "jax_gloo", _kill, share=0.2, is_partly_warm=True),
    Scenario("DDP under elasticjob run, worker SIGKILLed", "ddp", _kill, share=0.2, is_local_run=True),
    Scenario("DDP, node lost", "ddp", TrainingJob.lose_node, "1:2", 1, 2, times=1, share=0.1),
    Scenario("DDP, node joins", "ddp", TrainingJob.join_node, "1:2", 1, 1, times=1, share=0.1, is_new=True),
)


@dataclass
class Samples:
    """The recoveries of one side in one scenario."""

    recoveries: list[Recovery | None] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)
    """Why a recovery did not come, with the number of times."""


Measured = dict[tuple[str, str], Samples]
"""By scenario and side."""


def measure(server: Server, scenarios: Sequence[Scenario], options: argparse.Namespace, report: Report) -> Measured:
    """Run all scenarios in blocks, the sides in turns; failures are noted in the report."""
    measured: Measured = {}
    try:
        for scenario in scenarios:
            for block in range(_blocks(scenario, options.repetitions)):
                for side, open_job in _sides(server, scenario, block, options):
                    samples = measured.setdefault((scenario.name, side), Samples())
                    with results.attempt(report, f"{scenario.name}, {side}, block {block + 1}"), open_job() as job:
                        _run_block(scenario, job, samples, min(scenario.times, options.repetitions))
                print(f"{scenario.name}: block {block + 1} done", file=sys.stderr, flush=True)
    finally:
        report.series = series_of(scenarios, measured)
    return measured


def _blocks(scenario: Scenario, repetitions: int) -> int:
    return max(1, math.ceil(scenario.share * repetitions / scenario.times))


def _sides(
    server: Server, scenario: Scenario, block: int, options: argparse.Namespace
) -> Iterator[tuple[str, Callable[[], AbstractContextManager[TrainingJob]]]]:
    python, script = _python(scenario.script), scenario.script
    for side, warm in ((OURS, True), (COLD, False)):
        if scenario.is_local_run:
            yield side, functools.partial(local_run_job, python, script, warm=warm)
            continue
        target = server.endpoint.targets[0]
        nnodes, nproc = scenario.nnodes, scenario.nproc
        yield side, functools.partial(our_job, target, python, script, warm=warm, nnodes=nnodes, nproc=nproc)
    if scenario.with_torchrun and block < options.torchrun_blocks:
        yield TORCHRUN, functools.partial(torchrun_job, python, scenario.script, longest_s=options.longest)


def _run_block(scenario: Scenario, job: TrainingJob, samples: Samples, times: int) -> None:
    job.start(scenario.nodes)
    for turn in range(times):
        if turn > 0:
            job.await_steady()
        recovery = scenario.act(job)
        must_be_warm = job.is_warm and not (scenario.is_new or scenario.is_partly_warm)
        if must_be_warm and recovery is not None and not recovery.is_warm:
            raise StartedCold(f"started cold: {job.logs()[-500:]}")
        samples.recoveries.append(recovery)
        if recovery is None:
            samples.errors[job.last_error()] += 1
            return


def series_of(scenarios: Sequence[Scenario], measured: Measured) -> list[Series]:
    """Return a series for each scenario and side, and one for each part of it; a cold start of ours is its own row."""
    found: list[Series] = []
    for scenario in scenarios:
        for side in (OURS, COLD, TORCHRUN):
            if samples := measured.get((scenario.name, side)):
                found += _series(scenario, side, samples.recoveries)
    return found


def _series(scenario: Scenario, side: str, recoveries: Sequence[Recovery | None]) -> list[Series]:
    name = f"{scenario.name}, no warm start" if side == COLD else scenario.name
    took = tuple(math.inf if each is None else each.took_s for each in recoveries)
    if not took:
        return []
    target = scenario.target_s if side == OURS else None
    done = [each for each in recoveries if each is not None]
    parts = [
        Series(PARTS_GROUP, f"{scenario.name}: {part}", side, samples)
        for part in PARTS
        if (samples := tuple(each.parts_s[part] for each in done if part in each.parts_s))
    ]
    return [Series(GROUP, name, TORCHRUN if side == TORCHRUN else OURS, took, target=target), *parts]


def notes_of(measured: Measured, longest_s: float) -> dict[str, str]:
    """Return how often a recovery did not come, with the last error of each."""
    return {
        f"{scenario}, {side}: no next step": _list_errors(f"{scenario}, {side}", samples, longest_s)
        for (scenario, side), samples in measured.items()
        if samples.errors
    }


def _list_errors(title: str, samples: Samples, longest_s: float) -> str:
    of = f"{samples.errors.total()} of {len(samples.recoveries)} kills"
    rows = [f"{count:>4} × {error}" for error, count in samples.errors.most_common()]
    return "\n".join([f"{title}: {of} without a next step within {longest_s:g} s; the last error:", *rows])


def table_of_parts(series: Sequence[Series]) -> str:
    """Return a line for each scenario and side: the median of each part, in milliseconds."""
    rows: dict[tuple[str, str], list[str]] = {}
    for each in series:
        if each.group == PARTS_GROUP:
            scenario, _, part = each.name.partition(": ")
            rows.setdefault((scenario, each.side), []).append(f"{part} {1000 * each.p50:.0f}")
    return "\n".join(f"{scenario}, {side}, ms: {', '.join(cells)}" for (scenario, side), cells in rows.items())


def _python(script: str) -> Path:
    """Return the interpreter with the imports of this script."""
    venv = "torch-venv" if script in {"ddp", "fsdp"} else "frameworks-venv"
    done = subprocess.run([_HACK / venv], check=True, stdout=subprocess.PIPE, text=True)
    return Path(done.stdout.strip())


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=100, help="kills of a DDP worker on each of our sides")
    parser.add_argument("--torchrun-blocks", type=int, default=10, help=f"jobs of torchrun, up to {KILLS} kills each")
    parser.add_argument("--longest", type=float, default=45.0, help="seconds after which torchrun counts as never")
    parser.add_argument("--quick", action="store_true", help="two kills of each kind: does every piece work?")
    parser.add_argument("--only", default="", help="only scenarios whose name contains this")
    parser.add_argument("--json", type=Path, help="keep all samples there")
    options = parser.parse_args()
    if options.quick:
        options.repetitions, options.torchrun_blocks, options.longest = 2, 1, 20.0
    python = torch_python()
    if python is None:
        print("not measured: hack/torch-venv installs torch (4.7 GB), which this needs")
        return
    scenarios = [scenario for scenario in SCENARIOS if options.only in scenario.name]
    report = results.begin(etcd=etcds.version(), torch=torch_version(python))
    report.machine["torchrun is waited for"] = f"{options.longest:g} s"
    with results.keep(report, options.json), etcds.etcd() as server:
        measured = measure(server, scenarios, options, report)
        report.notes = notes_of(measured, options.longest)
        print("\n".join(f"{name}: {value}" for name, value in report.machine.items()), end="\n\n")
        print(results.table(each for each in report.series if each.group == GROUP))
        print("", table_of_parts(report.series), *report.notes.values(), sep="\n\n")


if __name__ == "__main__":
    main()

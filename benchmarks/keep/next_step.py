"""`python -m benchmarks.keep.next_step`: from a death to the next training step, with 512 MiB of state for each rank.

Warm starts on all sides, which take turns: the state in Keep, by `torch.save` on disk, and by DCP on disk. The files on
disk are in the page cache, which is to their benefit. The target is 0.2 s and 1.3 times torch's own load of that state
from memory, which is measured between them. A lost node is one of two; the survivor then loads both parts.
"""

import argparse
import contextlib
import functools
import json
import subprocess
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.keep.keepers import MEMORY
from benchmarks.recovery.next_step.jobs import TrainingJob, environment
from benchmarks.recovery.next_step.parts import Recovery
from benchmarks.recovery.torchrun import torch_python, torch_version
from benchmarks.report import etcds, results
from benchmarks.report.results import FLOOR, OURS, Report, Series
from elasticjob_api import constants
from testing.processes.fleet import Fleet

GROUP = "keep"
FORMS = {"keep": "Keep", "torch": "torch.save on disk", "dcp": "DCP on disk"}
_SCRIPT = Path(__file__).with_name("torch_training.py")
_LOAD = Path(__file__).with_name("torch_load.py")
_OVERHEAD_S, _SHARE_OF_LOAD = 0.2, 1.3
_COPY_S = 6.0
"""Seconds in which each part has its copy, at the default rate."""

Act = Callable[[TrainingJob], Recovery | None]


@contextlib.contextmanager
def training(endpoint: str, python: str, form: str, mib: int, *, nnodes: str) -> Iterator[TrainingJob]:
    """Yield a job that is not started yet, with warm starts."""
    with contextlib.ExitStack() as stack:
        folder, disk = (Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="keep-next-"))) for _ in "12")
        memory = stack.enter_context(tempfile.TemporaryDirectory(prefix="keep-next-", dir=MEMORY))
        fleet = Fleet(endpoint, folder, nnodes, 1)
        keep = {constants.ENV_KEEP_DIR: memory} if form == "keep" else {}
        own = {"BENCH_FORM": form, "BENCH_MIB": str(mib), "BENCH_DISK": str(disk), "ELASTICJOB_WARM_START": "Auto"}
        fleet.environment = environment(Path(memory)) | keep | own
        stack.callback(fleet.stop)
        yield TrainingJob(
            script=_SCRIPT,
            trace=fleet.trace,
            nproc=1,
            start_node=lambda: fleet.start_agent(python, str(_SCRIPT), str(fleet.trace)),
            is_warm=True,
            logs=lambda: "\n".join(path.read_text(errors="replace") for path in folder.glob("*.log")),
        )


def kill_workers(job: TrainingJob, times: int) -> list[float]:
    """Start a job and kill its worker so often; return the seconds to the next step."""
    job.start(1)
    found = []
    for turn in range(times):
        if turn:
            job.await_steady()
        found.append(_took(job, job.kill_worker(0), parts=1))
    return found


def lose_a_node(job: TrainingJob) -> list[float]:
    """Start a job of two nodes and lose one; return the seconds to the next step of the other."""
    job.start(2)
    time.sleep(_COPY_S)
    return [_took(job, job.lose_node(), parts=2)]


def _took(job: TrainingJob, recovery: Recovery | None, *, parts: int) -> float:
    """Return the seconds; raise AssertionError if the worker started cold, or without so many parts of the state."""
    assert recovery is not None
    if not recovery.is_warm:
        raise AssertionError("a worker started cold")
    if not any(point.name == f"loaded {parts}" and point.at_us > job.event_us for point in job.points()):
        raise AssertionError(f"a worker began without {parts} parts of its state")
    return recovery.took_s


def load_s(python: str, mib: int, turns: int) -> list[float]:
    """Return how many seconds torch's own load of that state takes, so often."""
    words = [python, str(_LOAD), str(mib), str(turns)]
    done = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True)
    return [float(value) for value in json.loads(done.stdout)]


def measure(python: str, options: argparse.Namespace, report: Report) -> None:
    """Measure all sides in turns; failures are noted in the report."""
    died: dict[str, list[float]] = defaultdict(list)
    lost: dict[str, list[float]] = defaultdict(list)
    loads: list[float] = []
    with etcds.etcd() as server:
        job = functools.partial(training, server.endpoint.targets[0], python, mib=options.size)
        for _ in range(options.repetitions):
            for form in FORMS:
                with results.attempt(report, f"a worker killed, {form}"), job(form, nnodes="1") as one:
                    died[form] += kill_workers(one, options.kills)
            loads += load_s(python, options.size, options.kills)
            for form in ("keep", "torch"):
                with results.attempt(report, f"a node lost, {form}"), job(form, nnodes="1:2") as two:
                    lost[form] += lose_a_node(two)
    report.series = _series(died, lost, loads, options)


def _series(
    died: dict[str, list[float]], lost: dict[str, list[float]], loads: list[float], options: argparse.Namespace
) -> list[Series]:
    mib = f"{options.size} MiB a rank"
    target = _OVERHEAD_S + _SHARE_OF_LOAD * results.percentile(loads, 0.5)
    found = [
        Series(GROUP, f"a worker killed → next step, {mib}, {FORMS[form]}", OURS, tuple(values),
               target=target if form == "keep" else None)
        for form, values in died.items()
    ]  # fmt: skip
    found += [
        Series(GROUP, f"one of two nodes lost → next step, {mib}, {FORMS[form]}", OURS, tuple(values))
        for form, values in lost.items()
    ]
    return [*found, Series(GROUP, f"torch.load of {options.size} MiB from memory", FLOOR, tuple(loads))]


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=2, help="jobs of each side")
    parser.add_argument("--kills", type=int, default=3, help="kills of the worker of one job")
    parser.add_argument("--size", type=int, default=512, help="MiB of a rank's state")
    parser.add_argument("--quick", action="store_true", help="one job of each side with 32 MiB: does every piece work?")
    parser.add_argument("--json", type=Path, help="keep all samples there")
    options = parser.parse_args()
    if options.quick:
        options.repetitions, options.kills, options.size = 1, 1, 32
    python = torch_python()
    if python is None:
        print("not measured: hack/torch-venv installs torch (4.7 GB), which this needs")
        return
    report = results.begin(etcd=etcds.version(), torch=torch_version(python))
    with results.keep(report, options.json):
        measure(python, options, report)
        print(results.table(report.series))


if __name__ == "__main__":
    main()

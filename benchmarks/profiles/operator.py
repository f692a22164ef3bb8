"""Processor time of an operator while all its jobs run: by layer, in the setup of `make bench-operator`."""

import json
import signal
import time
from collections.abc import Mapping
from pathlib import Path

from benchmarks.operator.bench import Bench, Scale
from benchmarks.operator.stack import OperatorProcess, stage, wait_until
from benchmarks.profiles.table import table

PODS = 10
_MODULE = "benchmarks.profiles.sampler"


def measure(folder: Path, jobs: int, for_s: float) -> tuple[str, Mapping[str, int]]:
    """Return the table, and every stack with its microseconds."""
    out = folder / "sampled.json"
    with stage(folder) as (server, etcd, cast):
        bench = Bench(server, cast, Scale(jobs, PODS))
        bench.bare(1)
        operator = OperatorProcess(server, etcd.endpoint.targets[0], folder, wrap=("-m", _MODULE, str(out)))
        try:
            wait_until("the operator is ready", lambda: operator.answers("/readyz"), within_s=60.0)
            bench.crowd(operator)
            bench.quiet(operator)
            operator.process.send_signal(signal.SIGUSR1)
            time.sleep(for_s)
            operator.process.send_signal(signal.SIGUSR1)
            wait_until("the operator has written its profile", out.exists, within_s=30.0)
        finally:
            operator.stop()
        profile = json.loads(out.read_text())
    percent = {layer: 100 * used_s / for_s for layer, used_s in profile["layers"].items()}
    return table(f"an operator of {jobs} jobs of {PODS} pods at rest, {for_s:g} s", {"% of a core": percent}), profile[
        "stacks"
    ]

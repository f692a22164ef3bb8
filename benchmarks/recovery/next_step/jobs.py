"""Training jobs that are measured: under our agents, warm or cold, and under torchrun.

A job trains without end. Its workers write their points to the same trace as the agents.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from benchmarks.recovery.next_step import parts
from benchmarks.recovery.next_step.parts import STEADY, Recovery
from benchmarks.recovery.torchrun import Torchruns
from testing.processes.fleet import Fleet
from testing.waiting import eventually, slowness

SCRIPTS = Path(__file__).parent / "scripts"
_START_S = 180.0
"""Seconds on a quiet machine for the first start and a zygote."""
_PAUSE_S = 0.02
_ERROR = re.compile(r"\b\w*(?:Error|Exception)\b.*")


class StartedCold(AssertionError):
    """A round that was to be warm was not."""


@dataclass
class TrainingJob:
    """One job with some nodes."""

    script: Path
    trace: Path
    nproc: int
    start_node: Callable[[], "subprocess.Popen[bytes]"]
    is_warm: bool = False
    longest_s: float | None = None
    """Seconds after which a recovery counts as never; None: it must come."""
    logs: Callable[[], str] = str
    """Returns the output of all nodes."""
    nodes: list["subprocess.Popen[bytes]"] = field(default_factory=list)
    event_us: int = 0
    """When it happened that the last measured recovery began with."""

    def start(self, nodes: int) -> None:
        """Start so many nodes, and wait until all train."""
        for _ in range(nodes):
            self.add_node()
        self.await_steady()

    def add_node(self) -> None:
        """Start one more node, and return at once."""
        self.nodes.append(self.start_node())

    @property
    def world(self) -> int:
        """Return the number of workers of the nodes that run."""
        return self.nproc * len(self.nodes)

    def points(self) -> list[parts.Point]:
        """Return the trace so far."""
        return parts.read(self.trace.read_text().splitlines()) if self.trace.exists() else []

    def await_steady(self) -> None:
        """Wait until all ranks train, and a warm start of them is possible."""
        eventually(
            self._all_are_steady,
            within_s=_START_S,
            what=f"{self.world} workers train; their output: {self.logs()[-2000:]}",
            pause_s=0.1,
        )
        if self.is_warm:
            what = f"workers forked ahead; the output: {self.logs()[-2000:]}"
            eventually(self._has_forked_ahead, within_s=_START_S, what=what, pause_s=0.1)

    def _all_are_steady(self) -> bool:
        assert all(node.poll() is None for node in self.nodes), f"a node has ended: {self.logs()[-2000:]}"
        steady = parts.workers_at(self.points(), STEADY, world=self.world, after_us=self.event_us)
        return len(steady) == self.world

    def _has_forked_ahead(self) -> bool:
        """Whether each node has its workers twice, and a zygote."""
        return all(self._count_processes(node.pid) > 2 * self.nproc for node in self.nodes)

    def _count_processes(self, pid: int) -> int:
        found = 0
        for process in psutil.Process(pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                found += process.cmdline()[1:2] == [str(self.script)]
        return found

    def kill_worker(self, rank: int) -> Recovery | None:
        """Kill this rank; return the way to the next training step of all, None for never."""
        pid = max(point for point in self.points() if point.name == STEADY and point.rank == rank).pid
        self.event_us = time.time_ns() // 1000
        os.kill(pid, signal.SIGKILL)
        return self._await_recovery()

    def lose_node(self) -> Recovery | None:
        """Kill all processes of the last node; return the way to the next training step of the others."""
        node = self.nodes.pop()
        tree = [psutil.Process(node.pid), *psutil.Process(node.pid).children(recursive=True)]
        self.event_us = time.time_ns() // 1000
        for process in tree:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        node.wait()
        return self._await_recovery()

    def join_node(self) -> Recovery | None:
        """Start one more node; return the way to the next training step of all, the new one included."""
        self.event_us = time.time_ns() // 1000
        self.add_node()
        return self._await_recovery()

    def _await_recovery(self) -> Recovery | None:
        within_s = _START_S if self.longest_s is None else self.longest_s / slowness()
        try:
            found = eventually(
                lambda: parts.recovery(self.points(), event_us=self.event_us, world=self.world),
                within_s=within_s,
                what="the next training step",
                pause_s=_PAUSE_S,
            )
        except AssertionError:
            if self.longest_s is None:
                raise
            return None
        return found

    def last_error(self) -> str:
        """Return the last line of the output that names an error."""
        found = _ERROR.findall(self.logs())
        return found[-1][:200] if found else "no error in its output"


@contextlib.contextmanager
def our_job(
    endpoint: str, python: Path, script: str, *, warm: bool, nnodes: str = "1", nproc: int = 2
) -> Iterator[TrainingJob]:
    """Yield a job under our agents that is stopped at the end."""
    path = SCRIPTS / f"{script}.py"
    with _folder() as folder, _compilation_cache() as cache:
        fleet = Fleet(endpoint, folder, nnodes, nproc)
        fleet.environment = environment(cache) | {"ELASTICJOB_WARM_START": "Auto" if warm else "Off"}
        job = TrainingJob(
            script=path,
            trace=fleet.trace,
            nproc=nproc,
            start_node=lambda: fleet.start_agent(str(python), str(path), str(fleet.trace)),
            is_warm=warm,
            logs=lambda: _text(folder),
        )
        try:
            yield job
        finally:
            fleet.stop()


@contextlib.contextmanager
def local_run_job(python: Path, script: str, *, warm: bool, nproc: int = 2) -> Iterator[TrainingJob]:
    """Yield a job of one node under `elasticjob run` that is stopped at the end."""
    path = SCRIPTS / f"{script}.py"
    with _folder() as folder, _compilation_cache() as cache:
        out = folder / "run"
        manifest = folder / "job.yaml"
        command = [str(python), str(path), str(out / "trace.jsonl")]
        manifest.write_text(json.dumps(_manifest(command, environment(cache), warm=warm, nproc=nproc)))
        log = folder / "run.log"
        job = TrainingJob(
            script=path,
            trace=out / "trace.jsonl",
            nproc=nproc,
            start_node=lambda: _start_run(manifest, out, log),
            is_warm=warm,
            logs=lambda: _text(folder),
        )
        try:
            yield job
        finally:
            for node in job.nodes:
                node.send_signal(signal.SIGINT)
                node.wait()


def _start_run(manifest: Path, out: Path, log: Path) -> "subprocess.Popen[bytes]":
    program = Path(sys.executable).parent / "elasticjob"
    with log.open("wb") as output:
        return subprocess.Popen([program, "run", manifest, "--run-dir", out], stdout=output, stderr=output)


def _manifest(command: Sequence[str], variables: Mapping[str, str], *, warm: bool, nproc: int) -> dict[str, object]:
    env = [{"name": name, "value": value} for name, value in variables.items()]
    container = {"name": "trainer", "image": "none", "command": command, "env": env}
    spec = {
        "replicas": 1,
        "nprocPerNode": nproc,
        "maxRestarts": 100,
        "agent": {"warmStart": "Auto" if warm else "Off"},
        "template": {"spec": {"containers": [container]}},
    }
    kind = {"apiVersion": "elasticjob.io/v1alpha1", "kind": "ElasticJob"}
    return {**kind, "metadata": {"name": "next-step"}, "spec": spec}


@contextlib.contextmanager
def torchrun_job(python: Path, script: str, *, longest_s: float, nproc: int = 2) -> Iterator[TrainingJob]:
    """Yield a job of one node under torchrun that is stopped at the end."""
    path = SCRIPTS / f"{script}.py"
    with _folder() as folder, _compilation_cache() as cache:
        runs = Torchruns(str(python), folder, longest_s, "1", nproc)
        runs.command = (str(python), str(path), str(runs.trace))
        runs.environment = environment(cache)
        job = TrainingJob(
            script=path,
            trace=runs.trace,
            nproc=nproc,
            start_node=runs.start_agent,
            longest_s=longest_s,
            logs=lambda: _text(folder),
        )
        try:
            yield job
        finally:
            runs.stop()


def environment(cache: Path) -> dict[str, str]:
    """Return the variables of every job."""
    return {
        "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "JAX_COMPILATION_CACHE_DIR": str(cache),
        "JAX_ENABLE_PREEMPTION_SERVICE": "false",  # it catches SIGTERM, so that the others end only after their grace
    }


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="next-step-") as folder:
        yield Path(folder)


@contextlib.contextmanager
def _compilation_cache() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="next-step-", dir="/dev/shm") as folder:
        yield Path(folder)


def _text(folder: Path) -> str:
    return "\n".join(path.read_text(errors="replace") for path in sorted(folder.glob("*.log")))

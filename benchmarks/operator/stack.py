"""The processes of `make bench-operator`: API server, etcd, operator, and the cast that plays kubelets and agents."""

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil

from elasticjob_etcd import die_with_parent
from elasticjob_etcd.embedded import EmbeddedEtcd
from testing.servers.apiserver import ROOT, ApiServer, kube_programs

CLUSTER = "bench"


class SimulatedCluster:
    """The process of kubelets and agents."""

    def __init__(self, server: ApiServer, etcd: str) -> None:
        line = [
            sys.executable,
            "-m",
            "benchmarks.operator.simulated_cluster",
            server.url,
            str(server.certificate),
            etcd,
            CLUSTER,
        ]
        self.process = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        self._hear()

    def ask(self, order: str) -> dict[str, Any]:
        """One order, one answer."""
        if self.process.stdin is None:
            raise AssertionError("it has a pipe")
        self.process.stdin.write(f"{order}\n")
        self.process.stdin.flush()
        return self._hear()

    def _hear(self) -> dict[str, Any]:
        if self.process.stdout is None:
            raise AssertionError("it has a pipe")
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError("the process of kubelets and agents has ended")
        heard: dict[str, Any] = json.loads(line)
        return heard


_PARTS: dict[str, Callable[[str], bool]] = {
    "API server": lambda line: "kube-apiserver" in line,
    "its etcd": lambda line: "etcd" in line and "/kube/" in line,
    "jobs' etcd": lambda line: "etcd" in line and "/etcd/" in line,
    "operator": lambda line: "elasticjob_operator.main" in line,
    "kubelets, agents": lambda line: "operator_cast" in line,
}


class ResourceUse:
    """Processor seconds of every part of the stage from now on: what an overfull machine was busy with."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()
        self._before = _spent()

    def __str__(self) -> str:
        took_s = time.monotonic() - self._began_s
        spent = {part: now_s - self._before.get(part, 0.0) for part, now_s in _spent().items()}
        share = 100 * sum(spent.values()) / took_s / (os.cpu_count() or 1)
        shown = ", ".join(f"{part} {of_it_s:.1f}" for part, of_it_s in spent.items() if of_it_s >= SHOWN_S)
        return f"processor seconds: {shown}; {share:.0f} % of this machine in {took_s:.1f} s"


SHOWN_S = 0.05


def _spent() -> dict[str, float]:
    own = psutil.Process()
    spent = {"clients": _cpu_s(own)}
    for process in own.children(recursive=True):
        with contextlib.suppress(psutil.Error):
            line = " ".join(process.cmdline())
            part = next((part for part, is_it in _PARTS.items() if is_it(line)), "others")
            spent[part] = spent.get(part, 0.0) + _cpu_s(process)
    return spent


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


class OperatorProcess:
    """The operator as its Deployment runs it, and what it costs."""

    def __init__(
        self, server: ApiServer, etcd: str, folder: Path, wrap: tuple[str, ...] = (), options: tuple[str, ...] = ()
    ) -> None:
        self._port = port = _free_port()
        arguments = ["--etcd-endpoints", etcd, "--cluster-id", CLUSTER, "--agent-image", "example/agent:1"]
        liveness = ["--liveness", f"http://127.0.0.1:{port}/healthz"]
        tied = [sys.executable, "-I", "-S", str(die_with_parent.__file__), str(os.getpid())]
        program = [*tied, sys.executable, *wrap, "-m", "elasticjob_operator.main"]
        with (folder / "operator.log").open("ab") as log:
            self.process = subprocess.Popen(
                [*program, *arguments, *liveness, *options],
                cwd=ROOT,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env={**os.environ, "KUBECONFIG": str(server.kubeconfig())},
            )
        self._watched = psutil.Process(self.process.pid)

    @property
    def rss_mb(self) -> float:
        """Resident memory now."""
        return float(self._watched.memory_info().rss) / 1e6

    @property
    def cpu_s(self) -> float:
        """Processor time so far."""
        return _cpu_s(self._watched)

    def answers(self, path: str) -> bool:
        """200 from `/readyz` or the like."""
        with contextlib.suppress(OSError):
            self._get(path)
            return True
        return False

    def role(self) -> str:
        """As `/readyz` says it; empty while it is not ready."""
        with contextlib.suppress(OSError):
            return str(json.loads(self._get("/readyz"))["role"])
        return ""

    def phases(self) -> dict[str, int]:
        """Jobs by phase, as it tells Prometheus."""
        found: dict[str, int] = {}
        for line in self._get("/metrics").splitlines():
            if line.startswith("elasticjob_phase{"):
                phase = line.partition('phase="')[2].partition('"')[0]
                found[phase] = found.get(phase, 0) + int(float(line.rpartition(" ")[2]))
        return found

    def depth(self) -> int:
        """Jobs that wait for their turn."""
        return self._figure("elasticjob_queue_depth")

    def turns(self) -> int:
        """Turns that jobs had so far."""
        return self._figure("elasticjob_reconcile_seconds_count")

    def _figure(self, name: str) -> int:
        lines = self._get("/metrics").splitlines()
        return next(int(float(line.rpartition(" ")[2])) for line in lines if line.startswith(f"{name} "))

    def kill(self) -> None:
        """SIGKILL."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """SIGTERM."""
        self.process.terminate()
        self.process.wait(30)

    def _get(self, path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self._port}{path}", timeout=30) as answer:
            text: bytes = answer.read()
            return text.decode()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def stage(folder: Path) -> Iterator[tuple[ApiServer, EmbeddedEtcd, SimulatedCluster]]:
    """An API server with the CRD, an etcd for the jobs, and the cast."""
    (folder / "kube").mkdir()
    with ApiServer(kube_programs(), folder / "kube") as server:
        applied = server.kubectl("apply", "--server-side", "-f", str(ROOT / "crds" / "elasticjob.yaml"))
        if applied.returncode:
            raise AssertionError(applied.stderr)
        wait_until("the CRD is served", lambda: server.kubectl("get", "ejob").returncode == 0)
        etcd = asyncio.run(EmbeddedEtcd.start(folder / "etcd", client_port=0, timeout_s=30))
        try:
            cast = SimulatedCluster(server, etcd.endpoint.targets[0])
            try:
                yield server, etcd, cast
            finally:
                cast.process.kill()
                cast.process.wait()
        finally:
            etcd.kill()


def wait_until(what: str, holds: Any, within_s: float = 3600.0, pause_s: float = 0.2) -> float:
    """Wait; seconds that it took."""
    began_s = time.monotonic()
    while not holds():
        if time.monotonic() - began_s > within_s:
            raise AssertionError(f"{what}: not within {within_s:g} s")
        time.sleep(pause_s)
    return time.monotonic() - began_s

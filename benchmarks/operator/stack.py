"""The processes of `make bench-operator`: API server, etcd, operator, and the simulated kubelets and agents."""

import asyncio
import contextlib
import json
import os
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
from testing.network.ports import unused_port
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
        self._receive()

    def ask(self, order: str) -> dict[str, Any]:
        """Send one order; return the answer."""
        if self.process.stdin is None:
            raise AssertionError("it has a pipe")
        self.process.stdin.write(f"{order}\n")
        self.process.stdin.flush()
        return self._receive()

    def _receive(self) -> dict[str, Any]:
        if self.process.stdout is None:
            raise AssertionError("it has a pipe")
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError("the process of kubelets and agents has ended")
        received: dict[str, Any] = json.loads(line)
        return received


_PARTS: dict[str, Callable[[str], bool]] = {
    "API server": lambda line: "kube-apiserver" in line,
    "its etcd": lambda line: "etcd" in line and "/kube/" in line,
    "jobs' etcd": lambda line: "etcd" in line and "/etcd/" in line,
    "operator": lambda line: "elasticjob_operator.main" in line,
    "kubelets, agents": lambda line: "operator_cast" in line,
}


class ResourceUse:
    """Processor seconds of every process of the benchmark from now on: the load of an overfull machine."""

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
    """The operator as its Deployment runs it, and its costs."""

    def __init__(
        self, server: ApiServer, etcd: str, folder: Path, wrap: tuple[str, ...] = (), options: tuple[str, ...] = ()
    ) -> None:
        self._port = port = unused_port()
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
        """Return the resident memory now."""
        return float(self._watched.memory_info().rss) / 1e6

    @property
    def cpu_s(self) -> float:
        """Return the processor time so far."""
        return _cpu_s(self._watched)

    def answers(self, path: str) -> bool:
        """Return whether `/readyz` or the like answers 200."""
        with contextlib.suppress(OSError):
            self._get(path)
            return True
        return False

    def role(self) -> str:
        """Return the role that `/readyz` reports; empty while it is not ready."""
        with contextlib.suppress(OSError):
            return str(json.loads(self._get("/readyz"))["role"])
        return ""

    def phases(self) -> dict[str, int]:
        """Return jobs by phase, from the metrics."""
        found: dict[str, int] = {}
        for line in self._get("/metrics").splitlines():
            if line.startswith("elasticjob_phase{"):
                phase = line.partition('phase="')[2].partition('"')[0]
                found[phase] = found.get(phase, 0) + int(float(line.rpartition(" ")[2]))
        return found

    def depth(self) -> int:
        """Return the length of the work queue."""
        return self._figure("elasticjob_queue_depth")

    def turns(self) -> int:
        """Return the reconciles so far."""
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


@contextlib.contextmanager
def stage(folder: Path) -> Iterator[tuple[ApiServer, EmbeddedEtcd, SimulatedCluster]]:
    """Start an API server with the CRD, an etcd for the jobs, and the simulated cluster."""
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
    """Wait; return the seconds that it took."""
    began_s = time.monotonic()
    while not holds():
        if time.monotonic() - began_s > within_s:
            raise AssertionError(f"{what}: not within {within_s:g} s")
        time.sleep(pause_s)
    return time.monotonic() - began_s

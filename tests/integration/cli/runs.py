"""Run the real command line in its own process, with tiny jobs."""

import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from testing.processes.census import MARKER, Census
from testing.waiting import eventually, scaled

_ELASTICJOB = Path(sys.executable).parent / "elasticjob"
_DEADLINE_S = 60.0
WAIT = "echo up; sleep 1000"


@dataclass
class Ended:
    """The result of a command: exit code and output."""

    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[list[str]]:
        """The rows of the table of ranks, without its head."""
        lines = self.out.splitlines()
        start = next(i for i, line in enumerate(lines) if line.startswith("RANK"))
        return [line.split() for line in lines[start + 1 :] if re.match(r"(\d+|-) ", line)]


@dataclass
class Cli:
    """The command line in its own folder; the census counts its processes."""

    folder: Path
    census: Census
    processes: list["subprocess.Popen[str]"] = field(default_factory=list)

    def manifest(self, script: str, **spec: Any) -> Path:
        """Write a job `tiny` whose workers run this script in a shell; by default 2 nodes with 1 worker each."""
        container = {
            "name": "trainer",
            "image": "busybox",
            "command": ["sh", "-c", script],
            **spec.pop("container", {}),
        }
        pod = {"containers": [container], **spec.pop("pod", {})}
        body = {
            "apiVersion": "elasticjob.io/v1alpha1",
            "kind": "ElasticJob",
            "metadata": {"name": "tiny"},
            "spec": {"replicas": 2, **spec, "template": {"spec": pod}},
        }
        path = self.folder / "job.yaml"
        path.write_text(yaml.safe_dump(body))
        return path

    def begin(self, *arguments: object, program: str | Path = _ELASTICJOB, **options: Any) -> "subprocess.Popen[str]":
        """Start `elasticjob`; its output is a pipe unless an option changes that."""
        environ = {**os.environ, MARKER: self.census.token, "PYTHONDONTWRITEBYTECODE": "1"}
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        process = subprocess.Popen(
            [str(program), *map(str, arguments)],
            cwd=self.folder,
            **{"env": environ, **pipes, **options},
        )
        self.processes.append(process)
        return process

    def begin_run(self, *arguments: object, **options: Any) -> "subprocess.Popen[str]":
        """Start a run of the manifest in the folder `out`."""
        return self.begin("run", self.folder / "job.yaml", "--run-dir", "out", *arguments, **options)

    def end(self, process: "subprocess.Popen[str]") -> Ended:
        """Wait for the end of a process; return the result."""
        out, err = process.communicate(timeout=scaled(_DEADLINE_S))
        return Ended(process.returncode, out or "", err or "")

    def run(self, *arguments: object, **options: Any) -> Ended:
        """Run the manifest to its end; return the result."""
        return self.end(self.begin_run(*arguments, **options))

    def workers_up(self, count: int = 2) -> None:
        """Wait until this many workers have written `up`."""
        eventually(lambda: self.pods_with_line("up") >= count, within_s=_DEADLINE_S, what="workers up")

    def pods_with_line(self, line: str) -> int:
        """Return how many pods have written this line."""
        logs = (self.folder / "out").glob("logs/*/trainer/stdout.log")
        return sum(line in log.read_text().splitlines() for log in logs)

    def resource(self) -> dict[str, Any]:
        """The job with its status, as the run saved it."""
        job: dict[str, Any] = yaml.safe_load((self.folder / "out/job.yaml").read_text())
        return job

    def status(self) -> dict[str, Any]:
        """The status of the job."""
        status: dict[str, Any] = self.resource()["status"]
        return status

    def clean_up(self) -> None:
        """End the processes that a failed test left."""
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            process.communicate()

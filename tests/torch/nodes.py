"""Nodes of one DDP job on this machine, each our agent or an unmodified torchrun, with their output.

The agent runs in the tests' own Python, which has no torch; its workers run in the Python with torch. torchrun finds
our rendezvous as in an installation: by an entry point, which is created here from pyproject.toml.
"""

import contextlib
import os
import re
import secrets
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from testing.waiting import eventually

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "examples/ddp/train.py"
NEEDED = ("grpc", "google", "etcd3", "psutil", "six.py", "tenacity", "typing_extensions.py")
WITHIN_S = 180.0
_BEGINS = re.compile(r"rank (\d+) of (\d+) begins at step (\d+)")
_STEP = re.compile(r"rank \d+ of \d+ step (\d+) ")


@dataclass(frozen=True)
class Beginning:
    """The start of a worker that has formed its process group."""

    rank: int
    world: int
    step: int


@dataclass
class Node:
    """One agent and its workers."""

    process: "subprocess.Popen[bytes]"
    log: Path

    def text(self) -> str:
        """Return all output so far."""
        return self.log.read_text(errors="replace")

    def beginnings(self) -> list[Beginning]:
        """Return each start of a worker, in order."""
        return [Beginning(*map(int, found)) for found in _BEGINS.findall(self.text())]

    def step(self) -> int:
        """Return the last step done; 0 before the first."""
        return max([0, *map(int, _STEP.findall(self.text()))])

    def workers(self) -> list[psutil.Process]:
        """Return the processes that train."""
        family = psutil.Process(self.process.pid).children(recursive=True)
        return [
            process for process in family if str(SCRIPT) in _command(process) and "distributed" not in _command(process)
        ]

    def kill(self, *, alone: bool = False) -> None:
        """Kill the agent with SIGKILL; unless `alone`, also all processes below it, as when a machine is lost."""
        agent = psutil.Process(self.process.pid)
        for process in (agent, *([] if alone else agent.children(recursive=True))):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self.process.wait()


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


@dataclass
class Ddp:
    """A job; `launcher` is `elasticjob-agent` or `torchrun`."""

    launcher: str
    python: Path
    endpoint: str
    folder: Path
    nnodes: str
    max_restarts: int = 5
    steps: int = 150
    nodes: list[Node] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.run_id = secrets.token_hex(6)
        self.checkpoint = self.folder / f"{self.run_id}.pt"

    def start(self) -> Node:
        """Start one more node, and return it at once."""
        log = self.folder / f"{self.run_id}.{len(self.nodes)}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                self._line(), env=self._environment(), stdout=output, stderr=output, start_new_session=True
            )
        self.nodes.append(Node(process, log))
        return self.nodes[-1]

    def _line(self) -> list[str]:
        ours = self.launcher == "elasticjob-agent"
        program = (
            [sys.executable, "-m", "elasticjob_agent.cli.main"]
            if ours
            else [str(self.python), "-m", "torch.distributed.run"]
        )
        return [
            *program,
            *(
                "--nnodes",
                self.nnodes,
                "--nproc-per-node",
                "1",
                "--max-restarts",
                str(self.max_restarts),
                "--local-addr",
                "127.0.0.1",
            ),
            *("--rdzv-backend", "elasticjob", "--rdzv-endpoint", self.endpoint, "--rdzv-id", self.run_id),
            *(str(SCRIPT), "--steps", str(self.steps), "--pause", "0.05", "--checkpoint", str(self.checkpoint)),
        ]

    def _environment(self) -> dict[str, str]:
        environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo"}
        if self.launcher == "elasticjob-agent":
            return {**environment, "PYTHON_EXEC": str(self.python)}
        return {**environment, "PYTHONPATH": python_path(self.folder / "site")}

    def await_world(self, nodes: list[Node], world: int, *, times: int = 1) -> None:
        """Wait until a worker of each node has begun `times` times in a world of this size."""
        eventually(
            lambda: all(len([b for b in node.beginnings() if b.world == world]) >= times for node in nodes),
            within_s=WITHIN_S,
            what=f"{len(nodes)} nodes in a world of {world}",
        )

    def await_checkpoint(self) -> None:
        """Wait until there is a checkpoint."""
        eventually(self.checkpoint.exists, within_s=WITHIN_S, what="a checkpoint")

    def await_ends(self) -> list[int]:
        """Return the exit codes of the nodes that were not killed."""
        return [node.process.wait(WITHIN_S) for node in self.nodes if node.process.returncode is None]

    def stop(self) -> None:
        """Stop the nodes that still run."""
        for node in self.nodes:
            if node.process.poll() is None:
                node.process.send_signal(signal.SIGTERM)
        for node in self.nodes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                node.process.wait(15)
            if node.process.poll() is None:
                node.kill()


def installation(folder: Path) -> Path:
    """Create a folder in which this project looks installed, with its dependencies and entry points."""
    if folder.exists():
        return folder
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    info = folder / "elasticjob-0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: elasticjob\nVersion: 0\n")
    groups = project["entry-points"].items()
    lines = [f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in entries.items()) for group, entries in groups]
    (info / "entry_points.txt").write_text("\n".join(lines))
    installed = Path(psutil.__file__).parents[1]
    for name in NEEDED:
        if (installed / name).exists():
            (folder / name).symlink_to(installed / name)
    return folder


def python_path(folder: Path) -> str:
    """Return PYTHONPATH for a Python with torch and without this project; `folder` is created."""
    return os.pathsep.join([str(installation(folder)), *(str(ROOT / part) for part in ("agent", "api", "etcd"))])


@contextlib.contextmanager
def ddp(
    launcher: str, python: Path, endpoint: str, folder: Path, nnodes: str, *, max_restarts: int = 5
) -> Iterator[Ddp]:
    """Yield a job that is stopped at the end."""
    job = Ddp(launcher, python, endpoint, folder, nnodes, max_restarts)
    try:
        yield job
    finally:
        job.stop()

"""torchrun for comparison: the same scenarios, the same trivial workers, its own rendezvous (c10d).

Its workers write the same line to a trace when they run, and a wait for a round counts those lines. A round that is
later than the longest wait is `never`. last_call_timeout is 2 s instead of its 30: it would only add to each row.
"""

import contextlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from testing.waiting import eventually

TORCHRUN = "torchrun c10d"
NEVER = None
_START_S = 90.0
"""Until all run for the first time, where that time is not measured."""

WORKER = """
import json, os, sys, time
line = {"t_us": time.time_ns() // 1000, "rank": int(os.environ["RANK"]), "world": int(os.environ["WORLD_SIZE"])}
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND)
os.write(fd, json.dumps(line).encode() + b"\\n")
order = sys.argv[2] + "/" + os.environ["RANK"]
while True:
    if os.path.exists(order):
        os.unlink(order)
        line["t_us"], line["exits"] = time.time_ns() // 1000, True
        os.write(fd, json.dumps(line).encode() + b"\\n")
        sys.exit(1)
    time.sleep(0.005)
"""


def torch_python() -> str | None:
    """Return the Python with torch, if it exists (hack/torch-venv)."""
    script = Path(__file__).parents[2] / "hack/torch-venv"
    found = subprocess.run([script, "--if-there"], capture_output=True, text=True, check=False)
    return found.stdout.strip() or None


def torch_version(python: str | None) -> str:
    """Return the version of that Python's torch."""
    if python is None:
        return "not installed"
    program = "import importlib.metadata as m; print(m.version('torch'))"
    return subprocess.run([python, "-c", program], capture_output=True, text=True, check=True).stdout.strip()


@dataclass
class Torchruns:
    """Some torchruns of one job."""

    python: str
    folder: Path
    longest_s: float
    """A later event counts as never."""
    nnodes: str
    nproc: int
    agents: list["subprocess.Popen[bytes]"] = field(default_factory=list)
    command: tuple[str, ...] = ()
    """The command of the workers; empty for the trivial one."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """More variables."""

    def __post_init__(self) -> None:
        self.run_id = secrets.token_hex(6)
        self.trace = self.folder / f"{self.run_id}.trace"
        self.trace.touch()
        self.orders = self.folder / f"{self.run_id}.orders"
        self.orders.mkdir()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])

    def start_agent(self) -> "subprocess.Popen[bytes]":
        """Start one and return at once."""
        trivial = (sys.executable, "-S", "-c", WORKER, str(self.trace), str(self.orders))
        line = [
            *(self.python, "-m", "torch.distributed.run", "--nnodes", self.nnodes, "--nproc-per-node", str(self.nproc)),
            *("--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{self.port}", "--rdzv-id", self.run_id),
            *("--rdzv-conf", "last_call_timeout=2", "--max-restarts", "100", "--local-addr", "127.0.0.1"),
            *("--no-python", *(self.command or trivial)),
        ]
        with (self.folder / f"{self.run_id}.{len(self.agents)}.log").open("wb") as log:
            process = subprocess.Popen(
                line, env={**os.environ, **self.environment}, stdout=log, stderr=log, start_new_session=True
            )
        self.agents.append(process)
        return self.agents[-1]

    def start_agents(self, count: int) -> None:
        """Start so many, the one with the store first, and wait until all workers run."""
        self.start_agent()
        eventually(self._listens, within_s=_START_S, what="the store of the first torchrun")
        for _ in range(count - 1):
            self.start_agent()
        if self._await_running(count * self.nproc, after_us=0, within_s=_START_S) is NEVER:
            raise AssertionError(f"torchrun did not start {count} nodes within {_START_S:g} s")

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def await_running(self, workers: int, *, after_us: int) -> int | None:
        """Return the last start of `workers` in a world of that size, all of them after a time; None for never."""
        return self._await_running(workers, after_us=after_us, within_s=self.longest_s)

    def _await_running(self, workers: int, *, after_us: int, within_s: float) -> int | None:
        try:
            eventually(lambda: len(self._begun(workers, after_us)) >= workers, within_s=within_s)
        except AssertionError:
            return NEVER
        return max(self._begun(workers, after_us))

    def _begun(self, world: int, after_us: int) -> list[int]:
        points = [json.loads(line) for line in self.trace.read_text().splitlines()]
        latest = {p["rank"]: p["t_us"] for p in points if p["world"] == world and "exits" not in p}
        return [at_us for at_us in latest.values() if at_us > after_us]

    def fail(self, rank: int) -> int:
        """Let a worker exit with 1; return the time."""
        (self.orders / str(rank)).touch()
        return eventually(self._exited, within_s=_START_S, what="the worker's end")

    def _exited(self) -> int:
        points = [json.loads(line) for line in self.trace.read_text().splitlines()]
        return max((int(p["t_us"]) for p in points if "exits" in p), default=0)

    def stop(self) -> None:
        """Kill all of it: nothing is measured any more."""
        for agent in self.agents:
            agent.send_signal(signal.SIGTERM)
        for agent in self.agents:
            with contextlib.suppress(subprocess.TimeoutExpired):
                agent.wait(10)
            agent.kill()
            agent.wait()
        for entry in Path("/proc").glob("[0-9]*/cmdline"):  # a torchrun that was killed leaves its workers running
            with contextlib.suppress(OSError):
                if str(self.trace).encode() in entry.read_bytes():
                    os.kill(int(entry.parent.name), signal.SIGKILL)


@contextlib.contextmanager
def torchruns(python: str, folder: Path, longest_s: float, nnodes: str, nproc: int) -> Iterator[Torchruns]:
    """A job that is stopped at the end."""
    made = Torchruns(python, folder, longest_s, nnodes, nproc)
    try:
        yield made
    finally:
        made.stop()

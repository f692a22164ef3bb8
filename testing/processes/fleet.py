"""Real agents on one machine, for tests and measurements: each a session of its own, a real etcd between them.

A worker first appends `{"t_us", "agent": "worker", "of", "round", "rank", "point": "running"}` to the trace file of the
agents, so that one file has the whole timeline. `of` is the number of its agent.
"""

import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from testing.waiting import eventually, scaled

WORKER = """
import json, os, sys, time
def note(point):
    line = {"t_us": time.time_ns() // 1000, "agent": "worker", "round": int(os.environ["ELASTICJOB_ROUND"]),
            "of": int(os.environ["FLEET_AGENT"]), "rank": int(os.environ["RANK"]), "pid": os.getpid(), "point": point,
            "env": {name: os.environ.get(name) for name in sys.argv[3].split(",")}}
    fd = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND)
    os.write(fd, json.dumps(line).encode() + b"\\n")
note("running")
while True:
    order = sys.argv[2] + "/" + os.environ["RANK"]
    if os.path.exists(order):
        code = int(open(order).read())
        os.unlink(order)
        note("exits")
        sys.exit(code)
    if os.path.exists(sys.argv[2] + "/finish"):
        sys.exit(0)
    time.sleep(0.005)
"""

WORKER_OUTPUT = (
    "RANK,LOCAL_RANK,GROUP_RANK,ROLE_RANK,ROLE_NAME,WORLD_SIZE,LOCAL_WORLD_SIZE,GROUP_WORLD_SIZE,ROLE_WORLD_SIZE,"
    "MASTER_ADDR,MASTER_PORT,TORCHELASTIC_RESTART_COUNT,TORCHELASTIC_MAX_RESTARTS,TORCHELASTIC_RUN_ID,"
    "TORCHELASTIC_USE_AGENT_STORE,TORCHELASTIC_ERROR_FILE,TORCH_NCCL_ASYNC_ERROR_HANDLING,OMP_NUM_THREADS,"
    "ELASTICJOB_ROUND,ELASTICJOB_PROGRESS,ELASTICJOB_TRACE"
)

Point = dict[str, Any]


@dataclass
class Fleet:
    """Some agents of one job; all write to the file `trace`."""

    endpoint: str
    folder: Path
    nnodes: str
    nproc: int
    max_restarts: int = 100
    conf: str = ""
    run_id: str = field(default_factory=lambda: secrets.token_hex(6))
    agents: list["subprocess.Popen[bytes]"] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    """More variables for agents that are started from now on."""
    address: str = "127.0.0.1"
    """The agents' address."""
    inside: tuple[str, ...] = ()
    """The command that starts them; it must become the agent itself (`nsenter`)."""

    def __post_init__(self) -> None:
        self.trace = self.folder / f"{self.run_id}.trace"
        self.orders = self.folder / f"{self.run_id}.orders"
        self.orders.mkdir()
        self.trace.touch()

    def start_agent(self, *command: str) -> "subprocess.Popen[bytes]":
        """Start one agent and return at once; its workers run `command`, or the worker above."""
        worker = (sys.executable, "-S", "-c", WORKER, str(self.trace), str(self.orders), WORKER_OUTPUT)
        line = [
            *(*self.inside, sys.executable, "-m", "elasticjob_agent.cli.main"),
            *("--nnodes", self.nnodes, "--nproc-per-node", str(self.nproc)),
            *("--rdzv-backend", "etcd", "--rdzv-endpoint", self.endpoint, "--rdzv-id", self.run_id),
            *("--max-restarts", str(self.max_restarts), "--local-addr", self.address, "--rdzv-conf", self.conf),
            *("--no-python", *(command or worker)),
        ]
        number = len(self.agents)
        own = {"ELASTICJOB_TRACE": str(self.trace), "FLEET_AGENT": str(number)}
        environment = {**os.environ, **self.environment, **own}
        with self.log_of(number).open("wb") as log:
            agent = subprocess.Popen(line, env=environment, stdout=log, stderr=log, start_new_session=True)
        self.agents.append(agent)
        return agent

    def start_agents(self, count: int) -> None:
        """Start so many agents and wait until the workers of all of them run in round 1."""
        for _ in range(count):
            self.start_agent()
        self.await_round(1, count * self.nproc)

    def log_of(self, agent: int) -> Path:
        """Return the file with the output of an agent and its workers."""
        return self.folder / f"{self.run_id}.{agent}.log"

    def points(self) -> list[Point]:
        """Return all trace points so far, in order of time; an incomplete line is left for the next call."""
        lines = self.trace.read_text().rpartition("\n")[0].splitlines()
        return sorted((json.loads(line) for line in lines), key=lambda point: int(point["t_us"]))

    def running(self, round_: int) -> list[Point]:
        """Return the running workers of a round."""
        return [p for p in self.points() if p["point"] == "running" and p["round"] == round_]

    def await_round(self, round_: int, workers: int, within_s: float = 30.0) -> int:
        """Wait until `workers` of a round run; return the time (µs) at which the last one did."""
        what = f"round {round_} with {workers} workers"
        eventually(lambda: len(self.running(round_)) >= workers, within_s=within_s, what=what)
        return max(int(p["t_us"]) for p in self.running(round_))

    def ranks(self, round_: int) -> dict[int, list[int]]:
        """Return agent → ranks of its workers in a round."""
        places: dict[int, list[int]] = {}
        for point in self.running(round_):
            places.setdefault(point["of"], []).append(point["rank"])
        return {agent: sorted(ranks) for agent, ranks in sorted(places.items())}

    def rounds(self) -> set[int]:
        """Return the rounds in which any worker ran."""
        return {p["round"] for p in self.points() if p["point"] == "running"}

    def fail(self, rank: int, code: int = 1) -> None:
        """Make a worker exit with `code` now."""
        order = self.orders / f".{rank}"
        order.write_text(str(code))
        order.rename(self.orders / str(rank))

    def finish(self) -> None:
        """Make all workers exit 0."""
        (self.orders / "finish").touch()

    def await_ends(self, within_s: float = 20.0) -> list[int]:
        """Wait until all agents have ended; return their exit codes."""
        for agent in self.agents:
            agent.wait(timeout=scaled(within_s))
        return [agent.returncode for agent in self.agents]

    def stop(self) -> None:
        """Stop the agents that were started here: first by a signal, then by force."""
        for agent in self.agents:
            if agent.poll() is None:
                agent.send_signal(signal.SIGTERM)
        for agent in self.agents:
            with contextlib.suppress(subprocess.TimeoutExpired):
                agent.wait(timeout=scaled(10))
            if agent.poll() is None:
                agent.kill()
                agent.wait()


@contextlib.contextmanager
def fleet(
    endpoint: str, folder: Path, nnodes: str, nproc: int, *, max_restarts: int = 100, conf: str = ""
) -> Iterator[Fleet]:
    """A fleet that is stopped at the end."""
    made = Fleet(endpoint, folder, nnodes, nproc, max_restarts=max_restarts, conf=conf)
    try:
        yield made
    finally:
        made.stop()

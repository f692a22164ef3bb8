"""Agents as processes of their own, each running `program.py`, and the reports of their workers in a shared folder."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from testing.waiting import eventually
from tests.integration.server import entrypoints

ROOT = Path(__file__).parents[3]
WITHIN_S = 30.0


class AgentProcess:
    """One agent."""

    def __init__(self, folder: Path, config: dict[str, Any], before: tuple[str, ...] = ()) -> None:
        folder.mkdir(parents=True)
        self.result_path = folder / "result.json"
        config = {**config, "result": str(self.result_path), "log_dir": str(folder / "logs")}
        (folder / "config.json").write_text(json.dumps(config))
        self.log = folder / "agent.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*before, sys.executable, "-m", "tests.integration.server.program", str(folder / "config.json")],
                cwd=ROOT,
                stdout=log,
                stderr=log,
            )

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def result(self) -> dict[str, Any]:
        """Return how it ended."""
        self.process.wait(WITHIN_S)
        assert self.result_path.exists(), f"exit code {self.process.returncode}\n{self.log.read_text()}"
        found: dict[str, Any] = json.loads(self.result_path.read_text())
        return found


class Fleet:
    """The agents of one test; workers report in the folder `reports` that they run."""

    def __init__(self, tmp_path: Path) -> None:
        self.tmp_path = tmp_path
        self.reports = tmp_path / "reports"
        self.reports.mkdir()
        self.agents: list[AgentProcess] = []

    def start(self, entrypoint: str, *, before: tuple[str, ...] = (), **config: Any) -> AgentProcess:
        """Start one more agent, with a function of `entrypoints` or a command, and return it.

        By default it is alone, with a static rendezvous. `before` is a command that runs it.
        """
        static = {
            "backend": "static",
            "endpoint": "localhost:29500",
            "run_id": "run",
            "min_nodes": 1,
            "max_nodes": 1,
            "rank": 0,
        }
        new_agent = AgentProcess(
            self.tmp_path / f"agent{len(self.agents)}",
            {
                "entrypoint": f"{entrypoints.__name__}:{entrypoint}"
                if hasattr(entrypoints, entrypoint)
                else entrypoint,
                "args": [str(self.reports)],
                "rendezvous": static,
                **config,
            },
            before,
        )
        self.agents.append(new_agent)
        return new_agent

    def running(self, restart: int, world_size: int | None = None) -> list[dict[str, str]]:
        """Return running workers of this restart count, by rank; of a world of this size, if given."""
        found = []
        for path in self.reports.glob(f"{restart}.*"):
            pid = path.name.rpartition(".")[2]
            variables = dict(line.split("=", 1) for line in path.read_text().splitlines())
            if alive(int(pid)) and world_size in {None, int(variables["WORLD_SIZE"])}:
                found.append({**variables, "pid": pid})
        return sorted(found, key=lambda variables: int(variables["RANK"]))

    def await_running(self, count: int, *, restart: int = 0) -> list[dict[str, str]]:
        """Wait until so many workers of a world of that size run."""
        eventually(
            lambda: len(self.running(restart, count)) == count,
            within_s=WITHIN_S,
            what=f"{count} workers after {restart} restarts",
        )
        return self.running(restart, count)

    def await_none(self) -> None:
        """Wait until no worker runs."""
        pids = [int(path.name.rpartition(".")[2]) for path in self.reports.glob("*.*.*")]
        eventually(lambda: not any(map(alive, pids)), within_s=WITHIN_S, what="no worker")

    def finish(self) -> None:
        """Let waiting workers end with code 0."""
        (self.reports / "finish").touch()

    def close(self) -> None:
        for agent in self.agents:
            agent.process.kill()
            agent.process.wait()


def alive(pid: int) -> bool:
    """Return whether this process runs; a zombie does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


@contextmanager
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    """Run a fleet; none of its processes is left afterwards."""
    agents = Fleet(tmp_path)
    try:
        yield agents
    finally:
        agents.close()
        for path in agents.reports.glob("*.*.*"):
            pid = int(path.name.rpartition(".")[2])
            if alive(pid) and str(agents.reports) in Path(f"/proc/{pid}/cmdline").read_text():
                os.kill(pid, signal.SIGKILL)

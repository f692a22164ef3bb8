"""Agents of one test, each started with its own command line."""

import contextlib
import os
import random
import socket
import subprocess
import sys
from pathlib import Path

from testing.waiting import scaled


class Agents:
    """The agents of one test; the output of each is in a file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started: list[subprocess.Popen[bytes]] = []

    def start(self, *words: str, **variables: str) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "elasticjob_agent.cli.main", *words]
        with self.log(len(self.started)).open("wb") as log:
            environment = {**os.environ, **variables, "TMPDIR": str(self.folder)}
            process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
        self.started.append(process)
        return process

    def log(self, number: int) -> Path:
        return self.folder / f"{number}.log"

    def output(self, number: int) -> str:
        return self.log(number).read_text()

    def ends(self) -> list[int]:
        return [process.wait(scaled(40)) for process in self.started]

    def close(self) -> None:
        """Kill the agents that still run."""
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.wait()


def free_pair() -> int:
    """Return a free port whose next port is free, too; both are below the usual ephemeral range."""
    return next(port for port in iter(lambda: random.randrange(20_000, 30_000), None) if is_free(port, port + 1))


def is_free(*ports: int) -> bool:
    with contextlib.ExitStack() as held:
        try:
            for port in ports:
                held.enter_context(socket.create_server(("127.0.0.1", port)))
        except OSError:
            return False
    return True

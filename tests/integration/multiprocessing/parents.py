"""Parent processes: scripts that use the process layer and are signalled, killed, or run strangely by a test."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from testing.waiting import eventually, scaled

HEAD = """
import os, signal, sys, tempfile, threading, time, logging
logging.basicConfig(format="%(levelname)s %(message)s")
from elasticjob_agent.multiprocessing import *
from tests.integration.multiprocessing import functions
def sh(*scripts, **options):
    options.setdefault("log_dir", tempfile.mkdtemp(dir=os.environ["FOLDER"]))
    return start_processes("w", "sh", {rank: ("-c", script) for rank, script in enumerate(scripts)}, None, **options)
def report(*values):
    print(*values, flush=True)
"""


class Parent:
    """A running script and its output, line by line."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process

    def line(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline().rstrip("\n")

    def end(self) -> tuple[int, str, str]:
        """Return the exit code and the rest of both outputs."""
        out, err = self.process.communicate(timeout=scaled(60))
        return self.process.returncode, out, err


@contextmanager
def parent(script: str, folder: Path, **env: str) -> Iterator[Parent]:
    """Run HEAD and this script; kill it at the end."""
    command = [sys.executable, "-c", HEAD + script]
    with subprocess.Popen(
        command,
        env={**os.environ, "FOLDER": str(folder), "PYTHONPATH": str(Path(__file__).parents[3]), **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield Parent(process)
        finally:
            process.kill()


def await_end(pids: list[int]) -> None:
    """Wait until none of these lives."""
    eventually(lambda: not any(map(_lives, pids)), within_s=30, what=f"the end of {pids}")


def _lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False

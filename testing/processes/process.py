"""A process of a test: tied to the life of the test process, with its output in a file that a test can read."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from elasticjob_etcd import die_with_parent
from testing.waiting import eventually, scaled

ROOT = Path(__file__).resolve().parents[2]
_END_LIMIT_S = 20.0


class Process:
    """A running Python module; start it from a thread that remains."""

    def __init__(self, module: str, *arguments: str, log: Path, environ: Mapping[str, str] | None = None) -> None:
        tied = [sys.executable, "-I", "-S", str(die_with_parent.__file__), str(os.getpid())]
        command = [*tied, sys.executable, "-m", module, *arguments]
        environment = {**os.environ, **(environ or {})}
        self._log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )

    @property
    def pid(self) -> int:
        """Return the pid of the module itself, which has replaced the program that ties it."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Return whether it has not ended."""
        return self._process.poll() is None

    def text(self) -> str:
        """Return its output, with that of predecessors that use the same log."""
        return self._log.read_text(errors="replace")

    def wait_for_output(self, text: str, *, within_s: float = 20.0) -> str:
        """Wait for a line with this text; return it."""

        def line() -> str:
            return next((line for line in self.text().splitlines() if text in line), "")

        return eventually(line, within_s=within_s, what=f"{text!r} in {self._log}")

    def stop(self, within_s: float = _END_LIMIT_S) -> int:
        """Send SIGTERM; return the exit code."""
        self._process.terminate()
        return self.wait(within_s)

    def kill(self) -> None:
        """SIGKILL."""
        self._process.kill()
        self.wait()

    def wait(self, within_s: float = _END_LIMIT_S) -> int:
        """Wait for the end; return the exit code. A process that does not end is killed, and that is a failure."""
        try:
            return self._process.wait(scaled(within_s))
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise

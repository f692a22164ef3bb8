"""`elasticjob watch` on a real terminal of 80 columns and 24 lines."""

import contextlib
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from elasticjob import ElasticJob
from testing.waiting import eventually
from tests.integration.cli.on_a_cluster import ELASTICJOB, Command
from tests.integration.sdk.conftest import Stage

pytestmark = pytest.mark.kube
_ENTER, _LEAVE = "\x1b[?1049h", "\x1b[?1049l"
_LIMIT_S = 40.0


@dataclass
class Terminal:
    """A terminal, and the output of a program on it."""

    master: int
    slave: int
    written: bytearray = field(default_factory=bytearray)

    def read(self) -> str:
        """Return all output so far."""
        os.set_blocking(self.master, False)
        try:
            while piece := os.read(self.master, 1 << 16):
                self.written += piece
        except (BlockingIOError, OSError):  # nothing more for now, or the program's end
            pass
        return self.written.decode(errors="replace")

    def shows(self, text: str) -> str:
        """Wait until this text was written; return all output."""
        return eventually(lambda: text in self.read() and self.read(), within_s=_LIMIT_S, what=f"{text!r} shown") or ""

    @property
    def echoes(self) -> bool:
        """Whether the terminal echoes, as under a shell."""
        return bool(termios.tcgetattr(self.slave)[3] & termios.ECHO)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    yield Terminal(master, slave)
    os.close(master)
    os.close(slave)


@contextlib.contextmanager
def begun(terminal: Terminal, command: Command, job: ElasticJob, **environ: str) -> Iterator["subprocess.Popen[bytes]"]:
    """Start the program on this terminal, and end it afterwards."""
    environment = {"KUBECONFIG": str(command.kubeconfig), "PATH": "/usr/bin:/bin", "TERM": "xterm", **environ}
    end = terminal.slave
    with subprocess.Popen(
        [ELASTICJOB, "watch", job.name], env=environment, stdin=end, stdout=end, stderr=end
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_watch_shows_changes_and_q_restores_the_terminal(
    terminal: Terminal, stage: Stage, command: Command, job: ElasticJob
) -> None:
    stage.runs(job, "a", "b")
    with begun(terminal, command, job) as watching:
        terminal.shows("q quits")
        assert not terminal.echoes
        stage.set_status(job, phase="Restarting", reason="WorkerFailed", message="rank 1 failed")
        terminal.shows("WorkerFailed: rank 1 failed")
        os.write(terminal.master, b"q")
        assert watching.wait(_LIMIT_S) == 0
    output = terminal.read()
    assert output.index(_ENTER) < output.index(_LEAVE)
    assert terminal.echoes


def test_watch_ends_with_the_job_and_leaves_the_last_picture(
    terminal: Terminal, stage: Stage, command: Command, job: ElasticJob
) -> None:
    stage.runs(job, "a", "b")
    with begun(terminal, command, job, NO_COLOR="1") as watching:
        terminal.shows("q quits")
        stage.runs(job, "a", "b", phase="Failed")
        assert watching.wait(_LIMIT_S) == 1
    output = terminal.read()
    assert f"{job.namespace}/{job.name}  Failed" in output[output.index(_LEAVE) :]
    assert not re.search(r"\x1b\[3\dm", output)


def test_ctrl_c_restores_the_terminal(terminal: Terminal, stage: Stage, command: Command, job: ElasticJob) -> None:
    stage.runs(job, "a")
    with begun(terminal, command, job) as watching:
        terminal.shows("q quits")
        watching.send_signal(signal.SIGINT)  # what the terminal that owns the program makes of the keys
        assert watching.wait(_LIMIT_S) == 130
    assert terminal.echoes
    assert terminal.read().rindex(_LEAVE) > 0

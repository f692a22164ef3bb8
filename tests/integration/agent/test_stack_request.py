"""Stacks of workers whose script does nothing for them: which process gets the signal, and why it harms no other."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from elasticjob_agent.monitoring.stack_request import refuse_request
from elasticjob_agent.supervisor import Command, Null
from elasticjob_agent.warm_start.stack_injection import with_stacks
from elasticjob_agent.workers.progress import ProgressFifo
from elasticjob_agent.workers.stack_signals import StackSignal
from testing.waiting import aeventually

HELPER = Path(__file__).parents[3] / "agent/elasticjob_agent/user_python/worker"
WAITS = """
import os, sys, time
def waits_for_a_peer_that_never_comes():
    open("ready", "w").close()
    while not os.path.exists("go"):
        time.sleep(0.01)
waits_for_a_peer_that_never_comes()
"""


@dataclass
class Worker:
    """One process with the registration of the warm start, as the agent sees it."""

    process: "subprocess.Popen[bytes]"
    fifo: ProgressFifo
    folder: Path

    @property
    def registered(self) -> StackSignal | None:
        """The registration of the process."""
        return self.fifo.stack_signals.get(self.process.pid)

    @property
    def stderr(self) -> str:
        """Its output on stderr."""
        return (self.folder / "stderr").read_text()

    def refusal(self) -> str:
        """Return why it must not be asked for its stacks."""
        assert self.registered is not None, "it has not registered"
        return refuse_request(self.process.pid, self.registered)

    async def ready(self) -> None:
        """Wait until its script waits."""
        await aeventually((self.folder / "ready").exists, within_s=30, what="the script")

    def request(self) -> None:
        """Send the signal whether or not it may be sent."""
        self.process.send_signal(signal.SIGURG)

    def finish(self) -> int:
        """Let it end; return its exit code."""
        (self.folder / "go").touch()
        return self.process.wait(timeout=30)


@pytest.fixture
async def fifo(tmp_path: Path) -> AsyncIterator[ProgressFifo]:
    """The agent's end of the FIFO."""
    made = ProgressFifo(tmp_path / "progress")
    yield made
    made.close()


@contextlib.contextmanager
def started(fifo: ProgressFifo, *argv: str, **variables: str) -> Iterator[Worker]:
    """Start this command as the warm starter starts a cold worker."""
    folder = fifo.path.parent
    environment = {"PATH": os.environ["PATH"], "ELASTICJOB_PROGRESS": str(fifo.path), **variables}
    command = Command(name="rank 0", argv=argv, env=environment, cwd=None, stdout=Null(), stderr=Null())
    changed = with_stacks(command)
    assert changed != command, "the command is not changed"
    with (folder / "stderr").open("wb") as stderr:
        process = subprocess.Popen(argv, env=dict(changed.env), cwd=folder, stderr=stderr)
    try:
        yield Worker(process, fifo, folder)
    finally:
        process.kill()
        process.wait()


async def everything_read(fifo: ProgressFifo) -> None:
    """Wait until the agent has read all lines that were written before."""
    fifo.path.write_bytes(b'{"alive": true}\n')
    await aeventually(lambda: fifo.messages, what="a last line")


def pythons() -> list[str]:
    """Return this Python and the other supported ones that are installed; a shim without its Python is none."""
    found = [sys.executable]
    for name in ("python3.8", "python3.9", "python3.10", "python3.12", "python3.13"):
        asks = [shutil.which(name) or "false", "-c", "import sys; print(sys.executable)"]
        done = subprocess.run(asks, capture_output=True, text=True, check=False)
        found += [done.stdout.strip()] if done.returncode == 0 else []
    return found


PYTHONS = pytest.mark.parametrize("python", pythons())


@PYTHONS
async def test_a_worker_writes_its_stacks_and_goes_on(python: str, fifo: ProgressFifo) -> None:
    with started(fifo, python, "-c", WAITS) as worker:
        await worker.ready()
        await aeventually(lambda: worker.registered, what="the registration")
        assert worker.refusal() == ""
        assert fifo.messages == 0, "a registration is no sign of life of the script"
        worker.request()
        await aeventually(lambda: "in waits_for_a_peer_that_never_comes" in worker.stderr, what="its stacks")
        assert worker.finish() == 0


LOOKS_AROUND = """
import os, signal, sys
names = [name for name in ("faulthandler", "signal_", "elasticjob_warm_start") if name in sys.modules]
print(names, signal.getsignal(signal.SIGURG) is signal.SIG_DFL, sorted(os.listdir("/proc/self/fd")),
      [name for name in os.environ if name.startswith("ELASTICJOB_") or name == "PYTHONPATH"], file=sys.stderr)
"""


async def test_the_script_sees_nothing_of_the_registration(fifo: ProgressFifo) -> None:
    with started(fifo, sys.executable, "-c", LOOKS_AROUND) as worker:
        assert worker.process.wait(timeout=30) == 0
        assert worker.stderr == "[] True ['0', '1', '2', '3'] ['ELASTICJOB_PROGRESS']\n"


@PYTHONS
@pytest.mark.parametrize("handler", ["lambda *_: open('called', 'w')", "signal.SIG_IGN", "signal.SIG_DFL"])
async def test_a_handler_of_the_script_ends_the_registration(python: str, handler: str, fifo: ProgressFifo) -> None:
    takes = f"import signal; assert signal.signal(signal.SIGURG, {handler}) is signal.SIG_DFL\n"
    with started(fifo, python, "-c", takes + WAITS) as worker:
        await worker.ready()
        await everything_read(fifo)
        assert worker.registered is None
        assert worker.finish() == 0
        assert not (fifo.path.parent / "called").exists()


@pytest.mark.parametrize(
    "takes",
    [
        pytest.param("signal.signal(signal.SIGURG, lambda *_: open('called', 'w'))", id="in Python"),
        pytest.param("faulthandler.register(signal.SIGURG, file=open('called', 'w'))", id="in the kernel alone"),
        pytest.param("signal.signal(signal.SIGURG, signal.SIG_IGN); open('called', 'w').write('x')", id="ignored"),
    ],
)
async def test_a_signal_that_is_taken_before_the_registration_is_left_alone(takes: str, fifo: ProgressFifo) -> None:
    """Modules that a zygote imports may do so, and a sitecustomize of the user."""
    folder = fifo.path.parent / "own"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(f"import faulthandler, signal\n{takes}\n")
    with started(fifo, sys.executable, "-c", WAITS, PYTHONPATH=str(folder)) as worker:
        await worker.ready()
        await everything_read(fifo)
        assert worker.registered is None
        worker.request()
        called = fifo.path.parent / "called"
        await aeventually(lambda: called.exists() and (called.stat().st_size or "lambda" in takes), what="its handler")
        assert worker.finish() == 0
        assert worker.stderr == ""


@pytest.mark.parametrize(
    "closes",
    [
        pytest.param("os.close(2)", id="closed"),
        pytest.param("os.close(2); data = open('data', 'w')", id="a file of the script has its number"),
        pytest.param("os.dup2(os.open('data', os.O_CREAT | os.O_WRONLY), 2)", id="redirected"),
    ],
)
async def test_stacks_are_never_written_elsewhere_than_to_the_stderr_of_the_start(
    closes: str, fifo: ProgressFifo
) -> None:
    with started(fifo, sys.executable, "-c", f"import os; {closes}\n" + WAITS) as worker:
        await worker.ready()
        await aeventually(lambda: worker.registered, what="the registration")
        assert worker.refusal().startswith("it has closed or redirected its stderr")
        assert worker.finish() == 0


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(["/bin/sleep", "600"], id="another program"),
        pytest.param([sys.executable, "-c", "import time; time.sleep(600)"], id="another Python"),
    ],
)
async def test_a_program_that_replaces_the_worker_gets_no_signal_and_would_ignore_it(
    program: list[str], fifo: ProgressFifo
) -> None:
    with started(fifo, sys.executable, "-c", f"import os; os.execv({program[0]!r}, {program!r})") as worker:
        await aeventually(lambda: worker.registered, what="the registration")
        await aeventually(lambda: worker.refusal().startswith("it no longer catches SIGURG"), what="the exec")
        worker.request()
        worker.process.send_signal(signal.SIGTERM)
        assert worker.process.wait(timeout=30) == -signal.SIGTERM


async def test_the_registration_of_a_script_has_precedence(fifo: ProgressFifo) -> None:
    registers = f"""
import signal, sys
sys.path.insert(0, {str(HELPER)!r})
import elasticjob_worker
elasticjob_worker.dump_stacks_on_request()
signal.signal(signal.SIGURG, signal.SIG_IGN)
"""
    with started(fifo, sys.executable, "-c", registers + WAITS) as worker:
        await worker.ready()
        await everything_read(fifo)
        assert worker.registered == StackSignal(signal.SIGUSR1)
        assert worker.refusal() == ""


async def test_a_forked_child_is_not_registered_and_its_end_changes_nothing(fifo: ProgressFifo) -> None:
    forks = "import os\nif os.fork() == 0: raise SystemExit\nos.wait()\n"
    with started(fifo, sys.executable, "-c", forks + WAITS) as worker:
        await worker.ready()
        await everything_read(fifo)
        assert worker.refusal() == ""


async def test_a_process_that_has_ended_gets_no_signal(fifo: ProgressFifo) -> None:
    with started(fifo, sys.executable, "-c", WAITS) as worker:
        await worker.ready()
        await aeventually(lambda: worker.registered, what="the registration")
        registered = worker.registered
        assert registered is not None
        assert worker.finish() == 0
        assert refuse_request(worker.process.pid, registered) == "it has ended"

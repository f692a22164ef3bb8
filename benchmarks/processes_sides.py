"""The two sides of `benchmarks.processes`: each function takes one row's samples, in a process of its own.

    python -m benchmarks.processes_sides SIDE ROW     its last line on standard error is a JSON list of numbers

Both sides run under the same Python. Torch is imported by name when its side runs, and by our side's workers where
the row says that they need it; nothing else of ours touches it.
"""

import asyncio
import importlib
import json
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil

from elasticjob_agent.spawn import start_processes
from elasticjob_agent.supervisor import Command, Console, Lines, Null, Supervisor

_HERE = "benchmarks.processes_sides"
FUNCTIONS, COMMANDS, LINES = 8, 64, 1_000_000
_STARTS, _EXITS, _SILENT_S = 5, 20, 5.0
_PRINT = f"import sys; sys.stdout.writelines(f'line {{i}} of a training run\\n' for i in range({LINES // 2}))"


# --- 8 functions that need torch: from the call until the last of them begins --------------------------------------


def begin(_: int, folder: str) -> None:
    """A worker that needs torch: it notes when it has it."""
    importlib.import_module("torch")
    Path(folder, str(os.getpid())).write_text(str(time.monotonic()))


def _start_functions(start: Callable[..., Any], **how: Any) -> float:
    with tempfile.TemporaryDirectory() as folder:
        start_s = time.monotonic()
        start(begin, args=(folder,), nprocs=FUNCTIONS, **how)
        notes = list(Path(folder).iterdir())
        assert len(notes) == FUNCTIONS, f"{len(notes)} of {FUNCTIONS} workers have begun"
        return max(float(note.read_text()) for note in notes) - start_s


def _warm(start: Callable[..., Any], **how: Any) -> list[float]:
    """Without the first start, with which the fork server comes up once in the life of a program."""
    return [_start_functions(start, **how) for _ in range(_STARTS + 1)][1:]


def torch_spawn() -> list[float]:
    """As its documentation has it; each worker imports torch."""
    return [_start_functions(importlib.import_module("torch.multiprocessing").spawn)]


def ours_spawn() -> list[float]:
    """The same; each worker imports torch."""
    return [_start_functions(start_processes)]


def torch_preloaded() -> list[float]:
    """The best that can be had: its fork server with torch preloaded, warm, and the parallel start."""
    os.environ["TORCH_MP_PARALLEL_START"] = "1"
    theirs = importlib.import_module("torch.multiprocessing")
    theirs.get_context("forkserver").set_forkserver_preload(["torch.multiprocessing.spawn", _HERE])
    return _warm(theirs.start_processes, start_method="forkserver")


def ours_preloaded() -> list[float]:
    """The fork server with torch preloaded, warm."""
    return _warm(start_processes, start_method="forkserver", preload=["torch", _HERE])


# --- 64 commands: from the call until all have been started --------------------------------------------------------


def _torch_start(entrypoint: str, args: tuple[str, ...], count: int, **destination: Any) -> Any:
    theirs = importlib.import_module("torch.distributed.elastic.multiprocessing")
    return theirs.start_processes(
        name="worker",
        entrypoint=entrypoint,
        args=dict.fromkeys(range(count), args),
        envs={rank: {} for rank in range(count)},
        logs_specs=theirs.DefaultLogsSpecs(**(destination or {"log_dir": os.devnull})),
    )


def _command(*argv: str, **streams: Any) -> Command:
    sinks = {"stdout": Null(), "stderr": Null()} | streams
    return Command(name=argv[0], argv=argv, env=dict(os.environ), cwd=None, **sinks)


def torch_commands() -> list[float]:
    """`start_processes` of 64 × `true`."""
    importlib.import_module("torch.distributed.elastic.multiprocessing")
    took_s = []
    for _ in range(_STARTS):
        start_s = time.monotonic()
        context = _torch_start("true", (), COMMANDS)
        took_s.append(time.monotonic() - start_s)
        context.wait(period=0.05)
    return took_s


async def ours_commands() -> list[float]:
    """The starter's, with parent-death signal and a session for each."""
    supervisor = await Supervisor.create()
    took_s = []
    for _ in range(_STARTS):
        start_s = time.monotonic()
        children = await supervisor.spawn([_command("true")] * COMMANDS)
        took_s.append(time.monotonic() - start_s)
        await supervisor.sweep(children)
    await supervisor.close()
    return took_s


# --- worker exit to callback: from SIGKILL at a random moment until the waiter runs ---------------------------------


def _kill_later(pid: int, killed: list[float]) -> threading.Thread:
    def kill() -> None:
        time.sleep(random.uniform(0.05, 1.05))
        killed.append(time.monotonic())
        os.kill(pid, signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    return thread


def torch_exit() -> list[float]:
    """`wait` with its default period."""
    took_s = []
    for _ in range(_EXITS):
        context = _torch_start("sleep", ("1000",), 1)
        killed: list[float] = []
        thread = _kill_later(context.pids()[0], killed)
        context.wait()
        took_s.append(time.monotonic() - killed[0])
        thread.join()
    return took_s


async def ours_exit() -> list[float]:
    """A child's `exit`."""
    supervisor, took_s = await Supervisor.create(), []
    for _ in range(_EXITS):
        [child] = await supervisor.spawn([_command("sleep", "1000")])
        killed: list[float] = []
        thread = _kill_later(child.pid, killed)
        await child.exit
        took_s.append(time.monotonic() - killed[0])
        thread.join()
        await supervisor.sweep([child])
    await supervisor.close()
    return took_s


# --- tee: the whole process is timed from outside -------------------------------------------------------------------


def torch_tee() -> list[float]:
    """Two ranks to files and to our stdout."""
    theirs = importlib.import_module("torch.distributed.elastic.multiprocessing")
    with tempfile.TemporaryDirectory() as folder:
        context = _torch_start(sys.executable, ("-I", "-S", "-c", _PRINT), 2, log_dir=folder, tee=theirs.Std.OUT)
        assert not context.wait().is_failed()
        context.close()
    return []


async def ours_tee() -> list[float]:
    """Two ranks to files and to our stdout."""
    console = Console(1, room_bytes=1 << 30)
    with tempfile.TemporaryDirectory() as folder:
        supervisor = await Supervisor.create()
        sinks = [Lines(Path(folder, str(rank)), b"[worker%d]:" % rank, console.write) for rank in range(2)]
        tees = [_command(sys.executable, "-I", "-S", "-c", _PRINT, stdout=sink) for sink in sinks]
        children = await supervisor.spawn(tees)
        await asyncio.gather(*(child.drained for child in children))
        await supervisor.close()
    assert console.close(within_s=60)
    return []


# --- supervising 64 silent workers: CPU seconds per second -----------------------------------------------------------


def _used_s(processes: Sequence[psutil.Process]) -> float:
    return float(sum(sum(process.cpu_times()[:2]) for process in processes))


def torch_silent() -> list[float]:
    """`wait` with its default period."""
    context = _torch_start("sleep", ("1000",), COMMANDS)
    before_s = _used_s([psutil.Process()])
    context.wait(timeout=_SILENT_S)
    used_s = _used_s([psutil.Process()]) - before_s
    context.close()
    return [used_s / _SILENT_S]


async def ours_silent() -> list[float]:
    """Our process and the starter together."""
    supervisor = await Supervisor.create()
    children = await supervisor.spawn([_command("sleep", "1000")] * COMMANDS)
    both = [psutil.Process(), psutil.Process(supervisor.starter_pid)]
    before_s = _used_s(both)
    await asyncio.wait([child.exit for child in children], timeout=_SILENT_S)
    used_s = _used_s(both) - before_s
    await supervisor.close()
    return [used_s / _SILENT_S]


def main() -> None:
    """Take the samples that the command line names."""
    taken = globals()["_".join(sys.argv[1:3])]()
    # The tee's own output is its standard output.
    print(json.dumps(asyncio.run(taken) if asyncio.iscoroutine(taken) else taken), file=sys.stderr)


if __name__ == "__main__":
    main()

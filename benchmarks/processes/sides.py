"""The two sides of `benchmarks.processes.bench`: each function takes one row's samples, in a process of its own.

    python -m benchmarks.processes.sides SIDE ROW     its last line on standard error is a JSON list of numbers

Both sides run the same calls under the same Python; only the library differs. Our side imports nothing of torch, except
for the workers that need it. A third side, the floor, does the minimum by hand without any library: `floor_` and the
name of a row.
"""

import importlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from benchmarks.profiles.cpu import used_s

FUNCTIONS, COMMANDS, LINES = 8, 64, 1_000_000
_STARTS, _EXITS, _SILENT_S = 5, 20, 5.0
_HERE = "benchmarks.processes.sides"
_PRINT = f"import sys; sys.stdout.writelines(f'line {{i}} of a training run\\n' for i in range({LINES // 2}))"
_SPAWN = {"torch": "torch.multiprocessing", "ours": "elasticjob_agent.spawn"}
_COMMANDS = {"torch": "torch.distributed.elastic.multiprocessing", "ours": "elasticjob_agent.multiprocessing"}


def begin(_: int, folder: str) -> None:
    """Note that a worker has imported torch."""
    importlib.import_module("torch")
    Path(folder, str(os.getpid())).write_text(str(time.monotonic()))


def _start_functions(start: Callable[..., Any], **how: Any) -> float:
    """Return the time from the call until the last of the workers begins."""
    with tempfile.TemporaryDirectory() as folder:
        start_s = time.monotonic()
        start(begin, args=(folder,), nprocs=FUNCTIONS, **how)
        notes = list(Path(folder).iterdir())
        assert len(notes) == FUNCTIONS, f"{len(notes)} of {FUNCTIONS} workers have begun"
        return max(float(note.read_text()) for note in notes) - start_s


def _start_commands(side: str, command: tuple[str, ...], count: int, **destination: Any) -> Any:
    library = importlib.import_module(_COMMANDS[side])
    return library.start_processes(
        name="worker",
        entrypoint=command[0],
        args=dict.fromkeys(range(count), command[1:]),
        envs={rank: {} for rank in range(count)},
        logs_specs=library.DefaultLogsSpecs(**(destination or {"log_dir": os.devnull})),
    )


def spawn(side: str) -> list[float]:
    """`spawn` as in its documentation; each worker imports torch."""
    return [_start_functions(importlib.import_module(_SPAWN[side]).spawn)]


def preloaded(side: str) -> list[float]:
    """The fork server with torch preloaded; for torch, its fastest way, with parallel start.

    The first start is left out, which starts the server once in the life of a program.
    """
    os.environ["TORCH_MP_PARALLEL_START"] = "1"
    library = importlib.import_module(_SPAWN[side])
    how: dict[str, Any] = {"start_method": "forkserver"}
    if side == "torch":
        library.get_context("forkserver").set_forkserver_preload(["torch.multiprocessing.spawn", _HERE])
    else:
        how["preload"] = ["torch", _HERE]
    return [_start_functions(library.start_processes, **how) for _ in range(_STARTS + 1)][1:]


def commands(side: str) -> list[float]:
    """From the call until all have been started; without the first, which starts our fork server."""
    took_s = []
    for _ in range(_STARTS + 1):
        start_s = time.monotonic()
        context = _start_commands(side, ("true",), COMMANDS)
        took_s.append(time.monotonic() - start_s)
        context.wait(period=0.05)
        context.close()
    return took_s[1:]


def exits(side: str) -> list[float]:
    """From a worker's SIGKILL at a random time until `wait`, with its default period, has returned."""
    took_s = []
    for _ in range(_EXITS):
        context = _start_commands(side, ("sleep", "1000"), 1)
        killed: list[float] = []
        thread = threading.Thread(target=_kill_later, args=(context.pids()[0], killed))
        thread.start()
        assert context.wait().is_failed()
        took_s.append(time.monotonic() - killed[0])
        thread.join()
    return took_s


def _kill_later(pid: int, killed: list[float]) -> None:
    time.sleep(random.uniform(0.05, 1.05))
    killed.append(time.monotonic())
    os.kill(pid, signal.SIGKILL)


def tee(side: str) -> list[float]:
    """Two ranks write to files and to our stdout; the whole process is timed from outside."""
    with tempfile.TemporaryDirectory() as folder:
        ranks = (sys.executable, "-I", "-S", "-c", _PRINT)
        out = importlib.import_module(_COMMANDS[side]).Std.OUT
        context = _start_commands(side, ranks, 2, log_dir=folder, tee=out)
        assert not context.wait().is_failed()
        context.close()
    return []


def silent(side: str) -> list[float]:
    """CPU seconds per second of the processes that wait for silent workers: this one, and our fork server."""
    context = _start_commands(side, ("sleep", "1000"), COMMANDS)
    waiting = [psutil.Process(), *(each for each in psutil.Process().children() if each.name() != "sleep")]
    pids = [each.pid for each in waiting]
    before_s = used_s(pids)
    context.wait(timeout=_SILENT_S)
    spent_s = used_s(pids) - before_s
    context.close()
    return [spent_s / _SILENT_S]


def floor_spawn() -> list[float]:
    """So many interpreters that import torch at the same time."""
    program = f"import sys; sys.path[0:0] = {sys.path!r}; from {_HERE} import begin; begin(0, sys.argv[1])"

    def start(*_: Any, args: tuple[str], nprocs: int) -> None:
        workers = [subprocess.Popen([sys.executable, "-c", program, *args]) for _ in range(nprocs)]
        assert [worker.wait() for worker in workers] == [0] * nprocs

    return [_start_functions(start)]


def floor_preloaded() -> list[float]:
    """Forks of a process that has imported torch."""
    importlib.import_module("torch")

    def start(*_: Any, args: tuple[str], nprocs: int) -> None:
        pids = []
        for number in range(nprocs):
            if (pid := os.fork()) == 0:
                begin(number, *args)
                os._exit(0)
            pids.append(pid)
        for pid in pids:
            os.waitpid(pid, 0)

    return [_start_functions(start) for _ in range(_STARTS)]


def floor_exits() -> list[float]:
    """From SIGKILL until `waitpid` has returned."""
    took_s = []
    for _ in range(_EXITS):
        pid = os.posix_spawnp("sleep", ["sleep", "1000"], {})
        time.sleep(0.05)
        start_s = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        took_s.append(time.monotonic() - start_s)
    return took_s


_ROWS = {row.__name__: row for row in (spawn, preloaded, commands, exits, tee, silent)}
_FLOORS = {row.__name__.removeprefix("floor_"): row for row in (floor_spawn, floor_preloaded, floor_exits)}
FLOORS = frozenset(_FLOORS)
"""Rows that have a floor here."""


def main() -> None:
    """Take the samples that the command line names."""
    side, row = sys.argv[1:]
    # On standard error: the tee's own output is standard output.
    print(json.dumps(_FLOORS[row]() if side == "floor" else _ROWS[row](side)), file=sys.stderr)


if __name__ == "__main__":
    main()

"""Functions of these tests' workers, at module level, so that each start method finds them."""

import atexit
import ctypes
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any


def echo(*values: Any) -> Any:
    return values[0] if len(values) == 1 else values


def big(size: int) -> bytes:
    return b"x" * size


def opens_pipe() -> Connection:
    """Return a descriptor, which only a live process can pass on; a tensor is one, too."""
    reader, writer = Pipe(duplex=False)
    writer.send("in a pipe of the worker")
    return reader


def nothing() -> None:
    return


def variable(name: str) -> str | None:
    return os.environ.get(name)


def fail(text: str = "failed") -> None:
    raise ValueError(text)


def fail_and_stay() -> None:
    """Send an error long before the process ends."""
    threading.Thread(target=time.sleep, args=(600,)).start()
    raise ValueError("failed")


def fail_at(wall_s: float) -> None:
    while time.time() < wall_s:
        time.sleep(0.001)
    raise ValueError(str(wall_s))


def sleep() -> None:
    time.sleep(600)


class _Own(BaseException):
    pass


def end(how: str, value: Any = None) -> Any:
    """End in the given way."""
    if how == "unpicklable":
        return lambda: None
    if how == "base":
        raise _Own
    if how == "generator":
        raise GeneratorExit
    if how == "sys.exit":
        sys.exit(value)
    if how == "os._exit":
        os._exit(value)
    if how == "ctrl-c":
        raise KeyboardInterrupt
    if how == "kill":
        os.kill(os.getpid(), value)
        time.sleep(600)
    if how == "crash at exit":
        atexit.register(os._exit, 5)
    return value


class BrokenText(Exception):
    def __str__(self) -> str:
        raise RuntimeError


def fail_strangely(how: str) -> None:
    if how == "recursion":
        fail_strangely(how)
    if how == "group":
        raise ExceptionGroup("many", [ValueError("one"), ValueError("two")])
    if how == "broken text":
        raise BrokenText
    if how == "socket":
        raise ValueError(socket.socket())
    if how == "long":
        raise ValueError("x" * 5_000_000)


def slow_to_leave(how: str) -> int:
    if how == "atexit":
        atexit.register(time.sleep, 0.5)
    else:
        threading.Thread(target=time.sleep, args=(0.5,)).start()
    return os.getpid()


def write_everywhere(lines: int) -> None:
    for number in range(lines):
        print(f"python {number}")
    sys.stdout.flush()
    libc = ctypes.CDLL(None)
    for number in range(lines):
        libc.printf(b"c %d\n", number)
    libc.fflush(None)
    os.write(1, b"descriptor\n")
    os.system("echo shell")
    print("to stderr", file=sys.stderr)


def raw(data: bytes) -> None:
    os.write(1, data)


def in_pieces(data: bytes) -> None:
    for position in range(len(data)):
        os.write(1, data[position : position + 1])


def many_bytes(size: int) -> None:
    view = memoryview(b"y" * size)
    while view:
        view = view[os.write(1, view) :]


def shared(value: Any) -> Any:
    """For partials."""
    return value * 2


class CallMe:
    def __call__(self, value: Any) -> Any:
        return value + 1


def ignore_and_sleep(ready: str) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    Path(ready).touch()
    time.sleep(600)


def family(kind: str, ready: str) -> None:
    """Start a grandchild of this kind that would live for ever, then return."""
    script = f"touch {ready}; exec sleep 600"
    if kind == "same session":
        subprocess.Popen(["sh", "-c", script], stdout=subprocess.DEVNULL)
    elif kind == "own session":
        subprocess.Popen(["sh", "-c", script], stdout=subprocess.DEVNULL, start_new_session=True)
    else:
        subprocess.run(["sh", "-c", f"setsid sh -c '{script}' >/dev/null 2>&1 &"], check=True)
    while not Path(ready).exists():
        time.sleep(0.01)


def catch_in_two(signum: int, folder: str) -> None:
    """This process and a child of it record the signal and end."""

    def note(*_: object) -> None:
        with (Path(folder) / "got").open("a") as file:
            file.write("x")
        os._exit(0)

    signal.signal(signum, note)
    if not os.fork():
        (Path(folder) / "ready").touch()
    while True:
        time.sleep(600)


class MissingInTheChild:
    """Unpickling it fails, like an import error in the child."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _explode, ()


def _explode() -> None:
    raise ImportError("no such module in the child")


class WaitsOnArrival:
    """Is unpickled only after this file has been created."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return _wait_for, (self.path,)


def _wait_for(path: str) -> str:
    while not Path(path).exists():
        time.sleep(0.01)
    return path


def nested(method: str, folder: str) -> Any:
    """Start workers from a worker."""
    from elasticjob_agent.multiprocessing import start_processes  # noqa: PLC0415 - other workers do not need it

    context = start_processes("n", echo, {0: (1,), 1: (2,)}, None, log_dir=folder, start_method=method)
    result = context.wait()
    assert result
    return result.return_values, signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def forked_surroundings() -> tuple[bool, bool]:
    return signal.getsignal(signal.SIGTERM) is signal.SIG_DFL, threading.current_thread() is threading.main_thread()

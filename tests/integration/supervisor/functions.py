"""Functions of the tests' function workers, at module level, so that each start method finds them."""

import os
import signal
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any


def echo(value: Any) -> Any:
    return value


def fail(text: str) -> None:
    raise ValueError(text)


def leave(code: Any) -> None:
    sys.exit(code)


def interrupt() -> None:
    raise KeyboardInterrupt


def kill_self(signum: int) -> None:
    os.kill(os.getpid(), signum)


def unpicklable() -> Any:
    return lambda: None


def send(connection: "Connection[Any, Any]", value: Any) -> None:
    connection.send(value)


def big(size: int) -> bytes:
    return b"x" * size


def surroundings() -> dict[str, Any]:
    """Return descriptors, environment, signals and stdin of the worker."""
    return {
        "fds": [path.name for path in Path("/proc/self/fd").iterdir() if path.is_symlink()],
        "env": dict(os.environ),
        "session": os.getsid(0) == os.getpid(),
        "sigint": signal.getsignal(signal.SIGINT) is signal.default_int_handler,
        "sigterm": signal.getsignal(signal.SIGTERM) is signal.SIG_DFL,
        "mask": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
        "stdin": sys.stdin.read(),
    }


def sleep() -> None:
    time.sleep(600)


class BrokenOnArrival:
    """Pickles without an error, and raises when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return fail, ("cannot arrive",)

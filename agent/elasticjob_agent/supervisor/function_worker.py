"""Code in a function worker: run a Python function and report its end to the parent.

It runs in the user's interpreter, before any import of the user's. So it uses the standard library alone and imports
nothing of this project.

The worker sends exactly one message on the channel: a pickled value, or a description of how the function ended. It
sends none if the process dies before. A reader must check the exit code first: a value counts only with exit code 0.

    message = KIND (1 byte) + LENGTH (8 bytes, big endian) + PAYLOAD
    KIND    V a pickled value · R raised · U value that cannot be pickled · N the function never began
            X SystemExit · K KeyboardInterrupt; the payload of these is JSON: {"type", "text", "traceback"}
"""

import atexit
import contextlib
import json
import os
import pickle
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

VALUE, RAISED, UNPICKLABLE, NOT_STARTED, EXITED, INTERRUPTED = "V", "R", "U", "N", "X", "K"
HEADER_BYTES = 9


class Call(NamedTuple):
    """The task of a worker. It is pickled as a plain tuple, because the worker cannot import this class by its name."""

    name: str
    fn: "Callable[..., Any]"
    args: "tuple[Any, ...]"
    daemon: bool
    wait_for_children: bool
    """After it has sent a value, the worker waits until the parent sends a byte or ends."""
    silent: bool
    """Do not print the traceback of an exception; the caller does."""
    discard: bool
    """Send None in place of the value, which may then be impossible to pickle."""
    method: str


def run_pickled(data_fd: int, channel_fd: int, inherited: "Sequence[int]") -> int:
    """Unpickle the call as spawned children of multiprocessing do, run it, and return the exit code."""
    from multiprocessing import forkserver, process, spawn  # noqa: PLC0415 - children of the fork server that exec do not need it

    forkserver._forkserver._inherited_fds = list(inherited)  # type: ignore[attr-defined]  # noqa: SLF001 - _DupFd looks there
    # A module that starts processes when it is imported must not do so here: multiprocessing refuses while this is set.
    process.current_process()._inheriting = True  # type: ignore[attr-defined]  # noqa: SLF001 - as multiprocessing does
    try:
        with os.fdopen(data_fd, "rb") as file:
            file.seek(0)
            tracker, preparation = pickle.load(file)  # noqa: S301 - the parent wrote it
            if tracker is not None:
                _use_tracker(inherited[tracker])
            spawn.prepare(preparation)
            call = Call(*pickle.load(file))  # noqa: S301 - as above
    except BaseException as error:  # noqa: BLE001 - any exception of the user's import is reported
        traceback.print_exc()
        send(channel_fd, NOT_STARTED, describe(error))
        return 1
    finally:
        del process.current_process()._inheriting  # type: ignore[attr-defined]  # noqa: SLF001 - as above
    return run(call, channel_fd)


def _use_tracker(fd: int) -> None:
    """Use the parent's tracker for shared memory and semaphores; without it they would vanish with this process."""
    from multiprocessing import resource_tracker  # noqa: PLC0415 - only for calls that share memory or semaphores

    resource_tracker._resource_tracker._fd = fd  # type: ignore[attr-defined]  # noqa: SLF001 - as multiprocessing does


def run(call: Call, channel_fd: int) -> int:
    """Run the call inside a multiprocessing process object; return the exit code, or minus 2 for Ctrl-C."""
    from multiprocessing.process import BaseProcess  # noqa: PLC0415 - as above

    os.set_inheritable(channel_fd, False)
    codes: list[int] = []

    class Worker(BaseProcess):
        def run(self) -> None:
            codes.append(_outcome(call, channel_fd))
            if call.wait_for_children and codes == [0]:
                with contextlib.suppress(OSError):
                    os.read(channel_fd, 1)

    worker = Worker(name=call.name, daemon=call.daemon)
    worker._parent_pid = os.getppid()  # type: ignore[attr-defined]  # noqa: SLF001 - it was made in the child
    worker._start_method = call.method  # type: ignore[attr-defined]  # noqa: SLF001 - nested starts use it
    code = worker._bootstrap(parent_sentinel=channel_fd)  # type: ignore[attr-defined]  # noqa: SLF001 - as multiprocessing does
    return codes[0] if codes and codes[0] != 0 else code


def _outcome(call: Call, channel_fd: int) -> int:
    """Call the function and report how it ended; return the exit code."""
    try:
        value = call.fn(*call.args)
    except SystemExit as error:
        send(channel_fd, EXITED, describe(error))
        return _system_exit_code(error.code)
    except KeyboardInterrupt as error:
        send(channel_fd, INTERRUPTED, describe(error))
        return -signal.SIGINT
    except BaseException as error:  # noqa: BLE001 - every exception is reported to the parent
        if not call.silent:
            traceback.print_exc()
        send(channel_fd, RAISED, describe(error))
        return 1
    return _send_value(call, channel_fd, None if call.discard else value)


def _send_value(call: Call, channel_fd: int, value: Any) -> int:
    from multiprocessing.reduction import ForkingPickler  # noqa: PLC0415 - as above

    try:
        data = ForkingPickler.dumps(value)
    except BaseException as error:  # noqa: BLE001 - __reduce__ of the user's class may raise anything
        if not call.silent:
            traceback.print_exc()
        send(channel_fd, UNPICKLABLE, describe(error))
        return 1
    send(channel_fd, VALUE, data)
    return 0


def _system_exit_code(code: Any) -> int:
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    print(code, file=sys.stderr)
    return 1


def describe(error: BaseException) -> bytes:
    """Return the exception as JSON, even if its `__str__` raises."""
    kind = type(error)
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - a broken __str__ must not hide the failure
        text = "<its text cannot be shown>"
    lines = traceback.format_exception(kind, error, error.__traceback__)
    return json.dumps({"type": kind.__qualname__, "text": text, "traceback": "".join(lines)}).encode("ascii")


def send(channel_fd: int, kind: str, payload: "bytes | memoryview") -> None:
    """Send the one message; ignore the error if the parent has ended."""
    data = memoryview(payload)
    try:
        _write_all(channel_fd, memoryview(kind.encode("ascii") + data.nbytes.to_bytes(HEADER_BYTES - 1, "big")))
        _write_all(channel_fd, data)
    except OSError:
        return


def _write_all(fd: int, data: "memoryview") -> None:
    while data:
        data = data[os.write(fd, data) :]


def main(data_fd: int, channel_fd: int, *inherited: int) -> NoReturn:
    """Run a worker that was exec'ed for its function, from start to end."""
    code = run_pickled(data_fd, channel_fd, inherited)
    if code == -signal.SIGINT:
        atexit.register(_die_of_interrupt)
    sys.exit(code)


def _die_of_interrupt() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGINT)


def clean_exit(code: int) -> NoReturn:
    """End a forked process with its buffers flushed, without returning into the code that it was forked from."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # None, closed or full: an error has no reader
            stream.flush()
    with contextlib.suppress(Exception):  # without ctypes, C buffers cannot be reached
        import ctypes  # noqa: PLC0415 - a child that execs does not come here

        ctypes.CDLL(None).fflush(None)
    if code == -signal.SIGINT:
        _die_of_interrupt()
    os._exit(code & 0xFF)


class ForkedFunctionWorker:
    """The last step of a fork server (`Run` in forkserver/child_setup.py) for workers in the forked process.

    With calls, it runs the one whose number is in the command; without, the call comes pickled.
    """

    def __init__(self, calls: "Sequence[Call]" = ()) -> None:
        self._calls = calls

    def __call__(self, setup: Any) -> None:
        """Run the function; never return."""
        code = 70
        try:
            _prepare(setup)
            code = self._run(setup)
            atexit._run_exitfuncs()  # noqa: SLF001 - registered by the function; os._exit would skip it
        except BaseException:  # noqa: BLE001 - nothing above this frame is ours to return to
            traceback.print_exc()
        finally:
            clean_exit(code)

    def _run(self, setup: Any) -> int:
        if self._calls:
            return run(self._calls[int(setup.argv[0])], setup.extras[0])
        data_fd, channel_fd, *inherited = setup.extras
        return run_pickled(data_fd, channel_fd, inherited)


def _prepare(setup: Any) -> None:
    """Do what an exec and the start of an interpreter would have done."""
    atexit._clear()  # noqa: SLF001 - functions registered before the fork belong to the parent
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for name in ("SIGPIPE", "SIGXFSZ"):  # as Python does at its start
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    os.environb.clear()
    os.environb.update(setup.env)
    for fd, name in ((1, "stdout"), (2, "stderr")):
        _rebind(fd, name)
    os.close(setup.handshake)


def _rebind(fd: int, name: str) -> None:
    """Make `sys.stdout` or `sys.stderr` write to this descriptor; in the parent it may have been another object."""
    try:
        if getattr(sys, name).fileno() == fd:
            return
    except (AttributeError, OSError, ValueError):  # None, no file, or closed
        pass
    setattr(sys, name, open(fd, "w", buffering=1, errors="backslashreplace", closefd=False))  # noqa: SIM115 - a descriptor

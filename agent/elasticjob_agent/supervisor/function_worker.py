"""In the worker: how a Python function runs, and how its end is reported to the parent.

It runs in the user's interpreter, before anything of the user's is imported, so it needs the standard library alone
and imports nothing of this project. Exactly one message goes back on the channel: a pickled value, or words about
how the function ended; none at all if the process died before it could. A reader must take the exit code first: a value
counts only with exit code 0.

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
    """The task of a worker. A plain tuple when it is pickled: the worker cannot import this class by its name."""

    name: str
    fn: "Callable[..., Any]"
    args: "tuple[Any, ...]"
    daemon: bool
    wait_for_children: bool
    """Having sent a value the worker waits until the parent sends a byte, or is gone."""
    silent: bool
    """Do not print the traceback of an exception: whoever asked does it."""
    discard: bool
    """Nobody wants the value: None is sent for it, so it may be what cannot be pickled."""
    method: str


def run_pickled(data_fd: int, channel_fd: int, inherited: "Sequence[int]") -> int:
    """Unpickle the call as multiprocessing's own spawned children do, run it, return the exit code."""
    from multiprocessing import forkserver, process, spawn  # noqa: PLC0415 - the starter's children that exec need it not

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
    except BaseException as error:  # noqa: BLE001 - whatever the user's import raises is told
        traceback.print_exc()
        send(channel_fd, NOT_STARTED, describe(error))
        return 1
    finally:
        del process.current_process()._inheriting  # type: ignore[attr-defined]  # noqa: SLF001 - as above
    return run(call, channel_fd)


def _use_tracker(fd: int) -> None:
    """Shared memory and semaphores are tracked by the parent's tracker, or they would vanish with this process."""
    from multiprocessing import resource_tracker  # noqa: PLC0415 - only for those that share such

    resource_tracker._resource_tracker._fd = fd  # type: ignore[attr-defined]  # noqa: SLF001 - as multiprocessing does


def run(call: Call, channel_fd: int) -> int:
    """Run the call inside a multiprocessing process object; return the exit code, minus 2 for Ctrl-C."""
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
    worker._start_method = call.method  # type: ignore[attr-defined]  # noqa: SLF001 - what nested starts use
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
    except BaseException as error:  # noqa: BLE001 - whatever it is, the parent learns of it
        if not call.silent:
            traceback.print_exc()
        send(channel_fd, RAISED, describe(error))
        return 1
    return _send_value(call, channel_fd, None if call.discard else value)


def _send_value(call: Call, channel_fd: int, value: Any) -> int:
    from multiprocessing.reduction import ForkingPickler  # noqa: PLC0415 - as above

    try:
        data = ForkingPickler.dumps(value)
    except BaseException as error:  # noqa: BLE001 - a __reduce__ of the user's may raise anything
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
    """The exception as JSON; survives a `__str__` that raises."""
    kind = type(error)
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - a broken __str__ must not hide the failure
        text = "<its text cannot be shown>"
    lines = traceback.format_exception(kind, error, error.__traceback__)
    return json.dumps({"type": kind.__qualname__, "text": text, "traceback": "".join(lines)}).encode("ascii")


def send(channel_fd: int, kind: str, payload: "bytes | memoryview") -> None:
    """Send the one message; a parent that is gone has no use for it."""
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
    """The whole life of a worker that was exec'ed for its function."""
    code = run_pickled(data_fd, channel_fd, inherited)
    if code == -signal.SIGINT:
        atexit.register(_die_of_interrupt)
    sys.exit(code)


def _die_of_interrupt() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGINT)


def clean_exit(code: int) -> NoReturn:
    """End a forked process without returning into what it was forked from, but with its buffers flushed."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # None, closed or full: there is nobody to be told
            stream.flush()
    with contextlib.suppress(Exception):  # a system without ctypes has no C buffers that we could reach
        import ctypes  # noqa: PLC0415 - a child that execs never comes here

        ctypes.CDLL(None).fflush(None)
    if code == -signal.SIGINT:
        _die_of_interrupt()
    os._exit(code & 0xFF)


class ForkedFunctionWorker:
    """A starter's last step (forkserver/child_setup.py `Run`) for workers that go on in the forked process.

    With calls, the one with the number in the command is run; without, the call comes pickled.
    """

    def __init__(self, calls: "Sequence[Call]" = ()) -> None:
        self._calls = calls

    def __call__(self, setup: Any) -> None:
        """Become the function; never returns."""
        code = 70
        try:
            _prepare(setup)
            code = self._run(setup)
            atexit._run_exitfuncs()  # noqa: SLF001 - what the function registered; os._exit would skip it
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
    """What an exec and the start of an interpreter would have done."""
    atexit._clear()  # noqa: SLF001 - what was registered before the fork is the parent's to run
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for name in ("SIGPIPE", "SIGXFSZ"):  # as Python does at its start
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    os.environb.clear()
    os.environb.update(setup.env)
    for fd, name in ((1, "stdout"), (2, "stderr")):
        _rebind(fd, name)
    os.close(setup.handshake)


def _rebind(fd: int, name: str) -> None:
    """Have `sys.stdout` write to descriptor 1: in the parent it may have been an object of somebody's own."""
    try:
        if getattr(sys, name).fileno() == fd:
            return
    except (AttributeError, OSError, ValueError):  # None, no file, or closed
        pass
    setattr(sys, name, open(fd, "w", buffering=1, errors="backslashreplace", closefd=False))  # noqa: SIM115 - a descriptor

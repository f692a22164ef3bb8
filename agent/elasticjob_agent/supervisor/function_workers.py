"""Python functions as workers: pickle them, start them with each start method, and receive their outcomes.

    children = await spawn_functions(supervisor, [Function(name="rank 0", fn=train, args=(), …)], "spawn")
    exit_ = await children[0].exit
    outcome = await children[0].outcome          # after exit and drained nothing more comes
    await stop_functions(children, grace_s=5)    # once, also for functions that have ended

A function is pickled in the calling thread, which must get an error of pickling. It is started in the supervisor's
loop; all start, or none. `spawn` execs the user's Python for each, through the supervisor's fork server. `forkserver`
forks from an interpreter with the `preload` imports done. `fork` forks from a copy of this process as it is now.
"""

import asyncio
import io
import multiprocessing
import os
import signal
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import context, forkserver, popen_forkserver, reduction, resource_tracker, spawn, util
from pathlib import Path
from typing import Any

from elasticjob_agent.supervisor import function_worker
from elasticjob_agent.supervisor.child import Child
from elasticjob_agent.supervisor.fork_launcher import ForkLauncher
from elasticjob_agent.supervisor.launchers import PreloadLauncher
from elasticjob_agent.supervisor.process_types import Command, Exit, Sink
from elasticjob_agent.supervisor.result_channel import FunctionOutcome, ResultChannel
from elasticjob_agent.supervisor.supervisor import Supervisor

START_METHODS = ("spawn", "fork", "forkserver")
_DATA_FD, _CHANNEL_FD, _FIRST_INHERITED_FD = 3, 4, 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """One function worker to start."""

    name: str
    """Its name in messages and in `multiprocessing.current_process()`."""
    fn: Any
    args: tuple[Any, ...]
    env: Mapping[str, str]
    """The whole environment of the worker: nothing is added to it."""
    stdout: Sink
    stderr: Sink
    daemon: bool = False
    """As in multiprocessing: it may not start processes of its own."""
    wait_for_children: bool = False
    """Whether it waits for `FunctionChild.release` after its answer."""
    silent: bool = False
    """Whether it does not print the traceback of an exception; `FunctionOutcome` has it."""
    discard: bool = False
    """Whether its value is not needed: `FunctionOutcome` has None, and its return value need not be picklable."""
    cpus: frozenset[int] = frozenset()
    """As in `Command`."""

    def call(self, method: str) -> function_worker.Call:
        """Return the worker's task."""
        return function_worker.Call(
            name=self.name,
            fn=self.fn,
            args=self.args,
            daemon=self.daemon,
            wait_for_children=self.wait_for_children,
            silent=self.silent,
            discard=self.discard,
            method=method,
        )


class FunctionChild:
    """A started function worker: a `Child` and its outcome."""

    def __init__(self, child: Child, channel: ResultChannel, server: "_Server") -> None:
        self.child = child
        self.server = server
        self._channel = channel
        child.exit.add_done_callback(lambda _: channel.worker_ended())

    @property
    def pid(self) -> int:
        """Return its process id, also after its end."""
        return self.child.pid

    @property
    def exit(self) -> asyncio.Future[Exit]:
        """Return a future that resolves when it was reaped."""
        return self.child.exit

    @property
    def drained(self) -> asyncio.Future[None]:
        """Return a future that resolves when all its output has been read."""
        return self.child.drained

    @property
    def outcome(self) -> asyncio.Future[FunctionOutcome | None]:
        """Return a future with its outcome, or with None if it died, or was killed, before the message was complete."""
        return self._channel.outcome

    def release(self) -> None:
        """Let a worker that waits after its answer continue to its end; may be called again."""
        self._channel.release()


class _Server:
    """The supervisor of some functions, and whether it is closed after the last of them."""

    def __init__(self, supervisor: Supervisor, *, own: bool) -> None:
        self.supervisor = supervisor
        self.own = own
        self.left = 0


@dataclass(frozen=True, slots=True)
class _Pickled:
    function: Function
    call: function_worker.Call
    data: bytes
    fds: tuple[int, ...]


def resolve_method(method: str | None) -> str:
    """Return the start method of that name; None is the default of `multiprocessing`.

    Raises:
        ValueError: there is no such method.
    """
    name = multiprocessing.get_context().get_start_method() if method is None else method
    if name not in START_METHODS:
        raise ValueError(f"unknown start method {name!r}; it is one of {', '.join(START_METHODS)}")
    return name


def spawn_functions(
    supervisor: Supervisor, functions: Sequence[Function], method: str | None, *, preload: Sequence[str] | None = None
) -> Awaitable[list[FunctionChild]]:
    """Start all of these; await it in the supervisor's loop: it returns when all run.

    The functions are pickled in this call, before anything is awaited. Call it where a pickling error should be raised.

    Args:
        supervisor: starts `spawn` workers, and is the key of its fork servers.
        functions: the functions to start; a pickling error is raised unchanged.
        method: `spawn`, `forkserver` or `fork`; None for the default of `multiprocessing`.
        preload: modules that the fork server imports beforehand; None for the modules given to
            `multiprocessing.set_forkserver_preload`.

    Raises:
        ValueError: there is no such method.
        StartError: when awaited: one could not be started; then none is left running.
    """
    method = resolve_method(method)
    packed = [_pickle(function, method) for function in functions]
    return _start(supervisor, packed, method, _preload_default() if preload is None else tuple(preload))


async def stop_functions(
    children: Sequence[FunctionChild],
    *,
    sig: signal.Signals = signal.SIGTERM,
    grace_s: float,
    reap_s: float | None = None,
) -> None:
    """End these workers and all their processes, dead or alive, as `Supervisor.stop`; a grace of 0 kills at once."""
    servers = {child.server for child in children}
    stops = [
        server.supervisor.stop(
            [each.child for each in children if each.server is server], sig=sig, grace_s=grace_s, reap_s=reap_s
        )
        for server in servers
    ]
    await asyncio.gather(*stops)
    for server in servers:
        server.left -= sum(each.server is server for each in children)
        if server.own and server.left <= 0:
            await server.supervisor.close()
    for child in children:
        child.release()


def _pickle(function: Function, method: str) -> _Pickled:
    call = function.call(method)
    if method == "fork":
        return _Pickled(function, call, b"", ())
    popen = _Spawning()
    buffer = io.BytesIO()
    head = io.BytesIO()
    context.set_spawning_popen(popen)  # type: ignore[arg-type]  # it has all that pickling needs
    try:
        preparation = {**spawn.get_preparation_data(function.name), "start_method": method}
        reduction.dump(tuple(call), buffer)
        # After the arguments: a semaphore among them may have started the tracker.
        reduction.dump((_tracker(popen), preparation), head)
    finally:
        context.set_spawning_popen(None)
    return _Pickled(function, call, head.getvalue() + buffer.getvalue(), tuple(popen.fds))


def _preload_default() -> tuple[str, ...]:
    """Return the modules set for the fork server of multiprocessing, without the main module."""
    names = getattr(forkserver._forkserver, "_preload_modules", [])  # noqa: SLF001 - no getter
    return tuple(name for name in names if name != "__main__")


class _Spawning:
    """The object that multiprocessing asks to pass descriptors on while it pickles."""

    DupFd = popen_forkserver._DupFd  # noqa: SLF001 - the child resolves it by its index in the list

    def __init__(self) -> None:
        self.fds: list[int] = []

    def duplicate_for_child(self, fd: int) -> int:
        """Pass this descriptor on; return its index."""
        self.fds.append(fd)
        return len(self.fds) - 1


def _tracker(popen: _Spawning) -> int | None:
    """Return the index of the resource tracker's pipe, or None if there is no tracker."""
    fd = resource_tracker._resource_tracker._fd  # type: ignore[attr-defined]  # noqa: SLF001 - getfd() would start one
    return None if fd is None else popen.duplicate_for_child(fd)


async def _start(
    supervisor: Supervisor, pickled: list[_Pickled], method: str, preload: tuple[str, ...]
) -> list[FunctionChild]:
    if not pickled:
        return []
    server = await _server_for(supervisor, pickled, method, preload)
    opened: list[int] = []
    channels: list[ResultChannel] = []
    try:
        commands = [_command(each, number, method, opened, channels) for number, each in enumerate(pickled)]
        children = await server.supervisor.spawn(commands)
    except BaseException:
        for channel in channels:
            channel.worker_ended()
        if server.own:
            await asyncio.shield(server.supervisor.close())
        raise
    finally:
        for fd in opened:
            os.close(fd)
    server.left += len(children)
    return [FunctionChild(child, channel, server) for child, channel in zip(children, channels, strict=True)]


async def _server_for(
    supervisor: Supervisor, pickled: list[_Pickled], method: str, preload: tuple[str, ...]
) -> _Server:
    if method == "spawn":
        return _Server(supervisor, own=False)
    if method == "fork":
        return _Server(await Supervisor.create(launcher=ForkLauncher([each.call for each in pickled])), own=True)
    return _Server(await supervisor.nested(("forkserver", *preload), PreloadLauncher(_python(), preload)), own=False)


def _python() -> list[str]:
    """Return the user's Python with its flags."""
    flags = util._args_from_interpreter_flags()  # type: ignore[attr-defined]  # noqa: SLF001 - as multiprocessing does
    return [os.fsdecode(spawn.get_executable()), *flags]


_BOOT = """
import sys
sys.path.insert(0, {folder!r})
from function_worker import main
del sys.path[0]
main({fds})
"""


def _command(pickled: _Pickled, number: int, method: str, opened: list[int], channels: list[ResultChannel]) -> Command:
    """Return the command for the fork server; append each opened descriptor and channel to the lists at once."""
    channel, theirs = ResultChannel.open()
    channels.append(channel)
    opened.append(theirs)
    argv: tuple[str, ...] = (str(number),)
    fds: tuple[int, ...] = (theirs,)
    if method != "fork":
        data = os.memfd_create("function")
        opened.append(data)
        with os.fdopen(os.dup(data), "wb") as file:
            file.write(pickled.data)
        fds = (data, theirs, *pickled.fds)
        argv = _argv(len(pickled.fds)) if method == "spawn" else ("function",)
    function = pickled.function
    return Command(
        name=function.name,
        argv=argv,
        env=function.env,
        cwd=str(Path.cwd()),
        stdout=function.stdout,
        stderr=function.stderr,
        fds=fds,
        cpus=function.cpus,
    )


def _argv(inherited: int) -> tuple[str, ...]:
    fds = [_DATA_FD, _CHANNEL_FD, *range(_FIRST_INHERITED_FD, _FIRST_INHERITED_FD + inherited)]
    boot = _BOOT.format(folder=str(Path(__file__).parent), fds=", ".join(map(str, fds)))
    return (*_python(), "-c", boot)

"""The contexts: n workers of one kind, functions or commands, started together and ended together.

A context starts its workers once, gets their ends from the supervisor without polling, and returns one final result.
When the caller gets a result, nothing of the workers' trees lives any more. Signals that the context handles are raised
as `SignalException`, never in the middle of a start or a close.
"""

import json
import logging
import os
import signal
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from errno import EIO, ENOENT
from functools import cached_property
from pathlib import Path
from types import FrameType
from typing import Any

from elasticjob_agent.host import numa
from elasticjob_agent.multiprocessing import signals
from elasticjob_agent.multiprocessing._recorded import run_recorded
from elasticjob_agent.multiprocessing._workers import WorkerSet
from elasticjob_agent.multiprocessing.errors import ProcessFailure, record
from elasticjob_agent.multiprocessing.errors.error_handler import describe, write_atomically
from elasticjob_agent.multiprocessing.logs import DefaultLogsSpecs, LogsDest, LogsSpecs
from elasticjob_agent.multiprocessing.redirects import redirect_stderr, redirect_stdout
from elasticjob_agent.multiprocessing.results import RunProcsResult, failure_of
from elasticjob_agent.multiprocessing.signals import SignalException
from elasticjob_agent.multiprocessing.std import Std, to_map
from elasticjob_agent.multiprocessing.subprocess_handler import SubprocessHandler, get_subprocess_handler
from elasticjob_agent.multiprocessing.tail_log import TailLog
from elasticjob_agent.multiprocessing.tee import Tee
from elasticjob_agent.supervisor import Command, Exit, Function, Sink, StartError, resolve_method

__all__ = [
    "IS_MACOS",
    "IS_WINDOWS",
    "DefaultLogsSpecs",
    "LogsDest",
    "LogsSpecs",
    "MultiprocessContext",
    "PContext",
    "ProcessFailure",
    "RunProcsResult",
    "SignalException",
    "Std",
    "SubprocessContext",
    "SubprocessHandler",
    "get_std_cm",
    "get_subprocess_handler",
    "to_map",
]

IS_WINDOWS = sys.platform == "win32"
IS_MACOS = sys.platform == "darwin"

logger = logging.getLogger(__name__)

_SIGNALS_ENV = "TORCHELASTIC_SIGNALS_TO_HANDLE"
_DEFAULT_SIGNALS = "SIGTERM,SIGINT,SIGHUP,SIGQUIT"
_CONTEXT_SETTLE_S = 0.1


def _terminate_process_handler(signum: int, frame: FrameType | None) -> None:
    """Raise SignalException in the main thread, now or after a block that must not be interrupted."""
    if signals.pass_on(signum, frame, _terminate_process_handler):
        return
    sigval = signal.Signals(signum)
    signals.deliver(SignalException(f"Process {os.getpid()} got signal: {signum}", sigval=sigval))


def _get_default_signal() -> signal.Signals:
    return signal.SIGTERM


def _get_kill_signal() -> signal.Signals:
    return signal.SIGKILL


def _validate_full_rank(d: dict[int, Any], nprocs: int, what: str) -> None:
    """Raise RuntimeError unless the keys are exactly 0 to nprocs-1."""
    if set(d) != set(range(nprocs)):
        raise RuntimeError(f"{what}: wrong local ranks: expected {list(range(nprocs))}, actual {sorted(d, key=str)}")


def get_std_cm(std_rd: str, redirect_fn: Callable[[str], AbstractContextManager[None]]) -> AbstractContextManager[None]:
    """Return `redirect_fn(std_rd)`, or a context without effect if the path is empty or the system cannot redirect."""
    if IS_WINDOWS or IS_MACOS or not std_rd:
        return nullcontext()
    return redirect_fn(std_rd)


class PContext(ABC):
    """Workers that are started, waited for and closed together; see `start_processes`."""

    failure_grace_s: float = 30.0
    """Seconds that the other workers get to end after a failure."""
    settle_s: float = _CONTEXT_SETTLE_S
    """Seconds after a failure in which further failures count as such, before the other workers are stopped.

    All ranks that fail together must be reported; the original reports only the first that it sees. Once the others are
    stopped, a failure cannot be distinguished from the reaction to the signal. A tenth of a second suffices on a loaded
    machine for workers that die of one cause, such as a peer's broken connection. Only a run with a failure waits so
    long.
    """
    on_failure: Callable[[dict[int, ProcessFailure]], None] | None = None
    """Called once, before the others are stopped, with the workers that failed by themselves, by local rank.

    It is called in the waiting thread, which stops the others when it returns: it must neither block nor raise. The
    original has no such callback: there a failure is known when all workers have ended, up to 30 s later.
    """

    def __init__(  # noqa: PLR0917 - the signature is torch's
        self,
        name: str,
        entrypoint: Callable[..., Any] | str,
        args: dict[int, Any],
        envs: dict[int, dict[str, str]] | None,
        logs_specs: LogsSpecs,
        log_line_prefixes: dict[int, str] | None = None,
        duplicate_stdout_filters: list[str] | None = None,
        duplicate_stderr_filters: list[str] | None = None,
    ) -> None:
        """Choose the destinations of the output; start nothing.

        Args:
            name: short label, the header of teed lines.
            entrypoint: the function or command of the workers.
            args: arguments by local rank.
            envs: variables by local rank, added to our own environment.
            logs_specs: destinations of the output; called once.
            log_line_prefixes: other headers of teed lines, by local rank.
            duplicate_stdout_filters: teed lines with any of these texts also go to one file for all ranks.
            duplicate_stderr_filters: the same for stderr.
        """
        self.name = name
        self.entrypoint = entrypoint
        self.args = {rank: (each,) if isinstance(each, str) else tuple(each) for rank, each in args.items()}
        self.nprocs = len(args)
        envs = {rank: {} for rank in args} if envs is None else envs
        self.envs = {rank: {key: str(value) for key, value in env.items()} for rank, env in envs.items()}
        dest = logs_specs.reify(self.envs)
        _validate_full_rank(dest.stdouts, self.nprocs, "stdouts")
        _validate_full_rank(dest.stderrs, self.nprocs, "stderrs")
        self.stdouts, self.stderrs, self.error_files = dest.stdouts, dest.stderrs, dest.error_files
        self.filtered_stdout = dest.filtered_stdout or None if duplicate_stdout_filters else None
        self.filtered_stderr = dest.filtered_stderr or None if duplicate_stderr_filters else None
        self._dest = dest
        self._prefixes = dict(log_line_prefixes or {})
        self._stdout_tee = Tee("stdout", filters=duplicate_stdout_filters or [], filtered_path=self.filtered_stdout)
        self._stderr_tee = Tee("stderr", filters=duplicate_stderr_filters or [], filtered_path=self.filtered_stderr)
        self._stdout_tail = TailLog(name, {}, sys.stdout)
        self._stderr_tail = TailLog(name, {}, sys.stderr)
        self._tail_logs = [self._stdout_tail, self._stderr_tail]
        self._handlers: signals.HandlerUser | None = None
        self._workers: WorkerSet | None = None
        self._closed = False
        self._result: RunProcsResult | None = None

    def start(self) -> None:
        """Install the signal handlers and start all workers, or none.

        Raises:
            ValueError: it was called before.
        """
        handlers = _install_handlers()
        try:
            with signals.uninterrupted():
                self._start()
                for tail_log in self._tail_logs:
                    tail_log.start()
                self._handlers = handlers
        except SignalException:  # raised at the end of the block, when all run: close releases the handlers
            raise
        except BaseException:
            signals.release(handlers, _terminate_process_handler)
            raise

    @abstractmethod
    def _start(self) -> None:
        """Start all workers."""

    @abstractmethod
    def _poll(self) -> RunProcsResult | None:
        """Return the result if there is one by now."""

    @abstractmethod
    def pids(self) -> dict[int, int]:
        """Return process ids by local rank, also after the end."""

    @abstractmethod
    def _close(self, death_sig: signal.Signals, timeout: int = 30) -> None:
        """End all workers."""

    def wait(self, timeout: float | None = -1, period: float = 1) -> RunProcsResult | None:
        """Wait until all have ended with code 0 or any has failed.

        Args:
            timeout: seconds; 0 checks once, None or a negative number waits for ever.
            period: seconds between checks of subclasses that are not notified of changes.

        Returns:
            The result, each time the same; None after the timeout.
        """
        forever = timeout is None or timeout < 0
        end_s = float("inf") if timeout is None or forever else time.monotonic() + timeout
        while True:
            changed = self._workers.changed if self._workers else None
            if changed:
                changed.clear()  # before the check: a later change is not missed
            with signals.uninterrupted():
                result = self._poll()
            left_s = end_s - time.monotonic()
            if result or left_s <= 0:
                return result
            _pause(changed, left_s, period)

    def close(self, death_sig: signal.Signals | None = None, timeout: int = 30) -> None:
        """Signal all workers, give them `timeout` seconds together, kill the rest, and restore signal handlers.

        A signal to this process during the call ends the grace at once and is raised when everything is done.

        Args:
            death_sig: the signal that asks them to end; SIGTERM by default.
            timeout: seconds; 0 kills at once.
        """
        with signals.uninterrupted():
            try:
                self._close(death_sig=death_sig or _get_default_signal(), timeout=timeout)
            finally:
                for tail_log in self._tail_logs:
                    tail_log.stop()
                self._stdout_tee.close()
                self._stderr_tee.close()
                self.release_handlers()

    def release_handlers(self) -> None:
        """Restore signal handlers, for a context that was closed in another thread: only the main thread can."""
        handlers, self._handlers = self._handlers, None
        signals.release(handlers, _terminate_process_handler)

    def shutdown(self, death_sig: signal.Signals | None = None, timeout: int = 30) -> None:
        """Do the same as `close`."""
        self.close(death_sig, timeout)


def _pause(changed: threading.Event | None, left_s: float, period: float) -> None:
    if changed:
        changed.wait(min(left_s, signals.max_wait_s()))
    else:
        time.sleep(min(left_s, period))


def _install_handlers() -> signals.HandlerUser:
    """Install our handler for each configured signal; return the argument for `signals.release`."""
    user = signals.HandlerUser()
    if threading.current_thread() is not threading.main_thread():
        logger.warning("not on the main thread: signals to this process will not stop its workers in order")
        return user
    for name in filter(None, map(str.strip, os.environ.get(_SIGNALS_ENV, _DEFAULT_SIGNALS).split(","))):
        try:
            signum = signal.Signals[name]
            original = signal.signal(signum, _terminate_process_handler)
        except (KeyError, ValueError, OSError):
            logger.warning(
                "%s contains %s, which is not a signal that can be handled; it is ignored", _SIGNALS_ENV, name
            )
            continue
        signals.remember(signum, original, user, _terminate_process_handler)
    return user


class _WorkerSetContext(PContext):
    """Base of both kinds of context: workers of the supervisor."""

    def __init__(  # noqa: PLR0917 - the signature is torch's
        self,
        name: str,
        entrypoint: Callable[..., Any] | str,
        args: dict[int, Any],
        envs: dict[int, dict[str, str]] | None,
        logs_specs: LogsSpecs,
        log_line_prefixes: dict[int, str] | None = None,
        numa_options: Any = None,
        duplicate_stdout_filters: list[str] | None = None,
        duplicate_stderr_filters: list[str] | None = None,
    ) -> None:
        """Take the arguments of `PContext`, and `numa_options`: None, or each worker's processors (`NumaOptions`)."""
        bindings = numa.cpu_bindings(numa_options, len(args), {**os.environ, **(envs or {}).get(0, {})})
        super().__init__(
            name,
            entrypoint,
            args,
            envs,
            logs_specs,
            log_line_prefixes,
            duplicate_stdout_filters,
            duplicate_stderr_filters,
        )
        self._cpus = dict(zip(sorted(self.args), bindings, strict=True))

    def _begin(self) -> WorkerSet:
        if self._workers:
            raise ValueError("this context was started already; create another one to start its workers again")
        self._workers = WorkerSet()
        self._stdout_tee.open_filtered()
        self._stderr_tee.open_filtered()
        return self._workers

    def _env(self, rank: int) -> dict[str, str]:
        return {**os.environ, **self.envs[rank]}

    def _sinks(self, rank: int) -> tuple[Sink, Sink]:
        prefix = self._prefixes.get(rank, f"[{self.name}{rank}]:")
        dest = self._dest
        stdout, stderr = (
            tee.sink(paths[rank], teed=teed.get(rank) == paths[rank], devnull=os.devnull, prefix=prefix)
            for tee, paths, teed in (
                (self._stdout_tee, dest.stdouts, dest.tee_stdouts),
                (self._stderr_tee, dest.stderrs, dest.tee_stderrs),
            )
        )
        return stdout, stderr

    def _close(self, death_sig: signal.Signals, timeout: float = 30) -> None:
        if not self._workers:
            return
        end_grace: list[Callable[[], None]] = []
        with signals.uninterrupted(lambda: _call_all(end_grace)):
            try:
                wedged = self._workers.stop(death_sig, grace_s=timeout, interrupted=end_grace)
                for rank in wedged:
                    logger.error(
                        "%s%s, pid %s, survived SIGKILL: not waited for any longer",
                        self.name,
                        rank,
                        self.pids().get(rank),
                    )
            finally:
                self._closed = True
                self._workers.changed.set()

    def _check(self) -> RunProcsResult | None:
        """Return the result if the workers' ends have made one."""
        workers = self._workers
        if self._result or not workers:
            return self._result
        ranks = range(self.nprocs)
        if self._closed:
            self._result = self._result_of(workers)
        elif any(workers.has_failed(rank) for rank in ranks):
            self._wait_settled(workers)
            if self.on_failure:
                self.on_failure(self._failures_so_far(workers))
            self.close(timeout=self.failure_grace_s)  # type: ignore[arg-type]  # parts of seconds are fine
            self._result = self._result_of(workers)
        elif workers.all_ended:
            self.close(timeout=0)  # kills what they have left running
            self._result = self._result_of(workers)
        return self._result

    def _wait_settled(self, workers: WorkerSet) -> None:
        end_s = time.monotonic() + self.settle_s
        while not workers.all_ended and (left_s := end_s - time.monotonic()) > 0:
            workers.changed.clear()
            if not workers.all_ended:
                workers.changed.wait(left_s)

    def _failures_so_far(self, workers: WorkerSet) -> dict[int, ProcessFailure]:
        """Return failures of workers that failed by themselves, or have sent an error and are about to exit."""
        failed = [rank for rank in range(self.nprocs) if workers.has_failed(rank)]
        return {rank: self._failure(workers, rank, workers.exits.get(rank) or _exit_unknown()) for rank in failed}

    def _result_of(self, workers: WorkerSet) -> RunProcsResult:
        result = RunProcsResult(stdouts=self.stdouts, stderrs=self.stderrs)
        for rank in range(self.nprocs):
            exit_ = workers.exits.get(rank)
            if workers.has_failed(rank) or exit_ is None or exit_.code != 0:
                result.failures[rank] = self._failure(workers, rank, exit_)
        return result

    def _failure(self, workers: WorkerSet, rank: int, exit_: Exit | None) -> ProcessFailure:
        return failure_of(
            rank,
            workers.pids.get(rank, 0),
            exit_,
            error_file=self.error_files.get(rank, ""),
            outcome=workers.outcome(rank),
            stopped_by_us=not workers.has_failed(rank),
            memory=workers.memory,
        )

    def _drop_stopped(self, result: RunProcsResult) -> None:
        """Remove workers that were stopped, unless there are no others."""
        own_failures = {rank: each for rank, each in result.failures.items() if not each.stopped_by_us}
        result.failures = own_failures or result.failures


def _exit_unknown() -> Exit:
    """Return the exit of a function worker that has sent an error."""
    return Exit(code=1, at_s=time.monotonic(), wall_ns=time.time_ns(), stopped_by_us=False)


def _call_all(functions: list[Callable[[], None]]) -> None:
    for function in functions:
        function()


class _Process:
    """The read-only interface of a process of multiprocessing."""

    def __init__(self, workers: WorkerSet, rank: int, name: str) -> None:
        self.name = name
        self.pid = workers.pids[rank]
        self._workers, self._rank = workers, rank

    @property
    def exitcode(self) -> int | None:
        """Return None while it runs, and minus the signal that killed it."""
        exit_ = self._workers.exits.get(self._rank)
        return exit_.code if exit_ else None

    def is_alive(self) -> bool:
        """Whether it has not ended."""
        return self.exitcode is None


class _Processes:
    """The interface of a `spawn.ProcessContext` for the function workers of a context, which alone may end them."""

    def __init__(self, workers: WorkerSet, name: str, error_files: dict[int, str]) -> None:
        self._workers = workers
        self.processes = [_Process(workers, rank, f"{name}{rank}") for rank in range(workers.size)]
        self.error_files = [error_files.get(rank, "") for rank in range(workers.size)]

    def pids(self) -> list[int]:
        """Return pids by local rank."""
        return [self._workers.pids[rank] for rank in range(self._workers.size)]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:  # noqa: ARG002 - the original's signature
        """Return whether all have ended; never block: the context waits for changes."""
        return self._workers.all_ended


class MultiprocessContext(_WorkerSetContext):
    """Workers that each run a Python function."""

    def __init__(  # noqa: PLR0917 - the signature is torch's
        self,
        name: str,
        entrypoint: Callable[..., Any],
        args: dict[int, Any],
        envs: dict[int, dict[str, str]] | None,
        start_method: str | None,
        logs_specs: LogsSpecs,
        log_line_prefixes: dict[int, str] | None = None,
        numa_options: Any = None,
        duplicate_stdout_filters: list[str] | None = None,
        duplicate_stderr_filters: list[str] | None = None,
    ) -> None:
        """Take the arguments of `PContext`, and `numa_options` as for commands.

        A further argument is `start_method`: spawn, fork or forkserver, or None for the default of `multiprocessing`.
        Any other raises ValueError.
        """
        self.start_method = resolve_method(start_method)
        super().__init__(
            name,
            entrypoint,
            args,
            envs,
            logs_specs,
            log_line_prefixes,
            numa_options,
            duplicate_stdout_filters,
            duplicate_stderr_filters,
        )
        self._pc: Any = None
        self._values: dict[int, Any] | None = None
        self._unreadable: dict[int, str] = {}
        """Reasons why values cannot be unpickled, by rank."""

    def _start(self) -> None:
        workers = self._begin()
        functions = [self._function(rank) for rank in range(self.nprocs)]
        try:
            workers.start_functions(functions, self.start_method)
        except StartError as error:
            raise OSError(error.errno or EIO, str(error)) from error
        self._pc = _Processes(workers, self.name, self.error_files)

    def _function(self, rank: int) -> Function:
        stdout, stderr = self._sinks(rank)
        return Function(
            name=f"{self.name}{rank}",
            fn=run_recorded,
            args=(self.entrypoint, self.args[rank]),
            env=self._env(rank),
            cpus=self._cpus[rank],
            wait_for_children=True,
            stdout=stdout,
            stderr=stderr,
        )

    def pids(self) -> dict[int, int]:
        """Return process ids by local rank; raise AssertionError before the start."""
        if self._pc is None:
            raise AssertionError("these processes are not started yet: call start() first")
        return dict(enumerate(self._pc.pids()))

    def _is_done(self) -> bool:
        """Return whether all workers have sent their values and have ended."""
        return self._workers is not None and self._workers.all_ended

    def _poll(self) -> RunProcsResult | None:
        if self._result or self._pc is None:
            return self._result
        try:
            self._pc.join(-1)
            self._read_values()
            result = self._check()
            if result and result.failures:
                return result
            if self._is_done():
                while not self._pc.join():
                    pass
                self._result = result or RunProcsResult(stdouts=self.stdouts, stderrs=self.stderrs)
        except Exception as error:
            if not hasattr(error, "error_index"):
                raise
            self._result = self._raise_unpicklable(error)
        return self._result

    def _result_of(self, workers: WorkerSet) -> RunProcsResult:
        self._record_unpicklable(workers)
        result = super()._result_of(workers)
        self._drop_stopped(result)
        if not result.failures:
            self._read_values()
            self._add_values(workers, result)
        return result

    def _read_values(self) -> None:
        """Unpickle the values once all are here, and only then let the workers end: some values need them alive."""
        workers = self._workers
        if workers is None or self._values is not None or not workers.has_all_outcomes:
            return
        self._values = {}
        try:
            for rank in range(self.nprocs):
                self._read_value(workers, rank)
        finally:
            workers.release()

    def _read_value(self, workers: WorkerSet, rank: int) -> None:
        outcome = workers.outcome(rank)
        assert self._values is not None
        try:
            self._values[rank] = outcome.value() if outcome and outcome.is_value else None
        except Exception as error:  # noqa: BLE001 - unpickling runs the user's code
            self._unreadable[rank] = f"its value cannot be unpickled here: {type(error).__name__}: {error}"

    def _add_values(self, workers: WorkerSet, result: RunProcsResult) -> None:
        for rank, message in self._unreadable.items():
            result.failures[rank] = failure = ProcessFailure(rank, workers.pids[rank], 1, "")
            failure.message = message
        if not self._unreadable:
            result.return_values = {rank: (self._values or {}).get(rank) for rank in range(self.nprocs)}

    def _record_unpicklable(self, workers: WorkerSet) -> None:
        """Write an error file for a value that cannot be pickled, as the worker does for other errors."""
        for rank, path in self.error_files.items():
            outcome = workers.outcome(rank)
            if outcome and outcome.kind == "U" and path and path != os.devnull:
                fields = outcome.describe
                _write_error_file(path, describe(fields["type"], fields["text"], fields["traceback"]))

    def _raise_unpicklable(self, error: Any) -> RunProcsResult:
        """Return the result for an error of `join`, which has the index of a failed process."""
        rank = error.error_index
        self.close(timeout=self.failure_grace_s)  # type: ignore[arg-type]  # parts of seconds are fine
        code = self._pc.processes[rank].exitcode
        failure = ProcessFailure(rank, error.error_pid, code, self.error_files.get(rank, ""))
        return RunProcsResult(failures={rank: failure}, stdouts=self.stdouts, stderrs=self.stderrs)


def _write_error_file(path: str, content: dict[str, Any]) -> None:
    try:
        write_atomically(Path(path), json.dumps(content))
    except OSError as error:
        logger.warning("cannot write the error file %s: %s", path, error.strerror)


class SubprocessContext(_WorkerSetContext):
    """Workers that each run a command."""

    @cached_property
    def subprocess_handlers(self) -> dict[int, SubprocessHandler]:
        """Return handlers by local rank; empty before the start."""
        return {}

    def _start(self) -> None:
        workers = self._begin()
        commands = [self._command(rank) for rank in range(self.nprocs)]
        try:
            workers.start_commands(commands)
        except StartError as error:
            raise OSError(error.errno or EIO, str(error), self.entrypoint) from error
        for rank, command in enumerate(commands):
            self.subprocess_handlers[rank] = _ContextHandler(workers, rank, command)

    def _command(self, rank: int) -> Command:
        argv = (str(self.entrypoint), *map(str, self.args[rank]))
        if not argv[0]:
            raise FileNotFoundError(ENOENT, "the command is empty", "")
        for word in argv:
            if "\0" in word:
                raise ValueError(f"embedded null byte in {word!r}: no process can get such an argument")
        stdout, stderr = self._sinks(rank)
        return Command(
            name=f"{self.name}{rank}",
            argv=argv,
            env=self._env(rank),
            cpus=self._cpus[rank],
            cwd=str(Path.cwd()),
            stdout=stdout,
            stderr=stderr,
        )

    def pids(self) -> dict[int, int]:
        """Return process ids by local rank; empty before the start."""
        return {rank: handler.proc.pid for rank, handler in self.subprocess_handlers.items()}

    def _poll(self) -> RunProcsResult | None:
        return self._check()

    def _result_of(self, workers: WorkerSet) -> RunProcsResult:
        result = super()._result_of(workers)
        if not result.failures:
            result.return_values = dict.fromkeys(range(self.nprocs))
        return result


class _ContextProcess:
    """A worker with the interface of a Popen."""

    def __init__(self, workers: WorkerSet, rank: int, command: Command) -> None:
        self.args = command.argv
        self.pid = workers.pids[rank]
        self._workers, self._rank = workers, rank

    @property
    def returncode(self) -> int | None:
        """Return None while it runs."""
        exit_ = self._workers.exits.get(self._rank)
        return exit_.code if exit_ else None

    def poll(self) -> int | None:
        """Return the same as `returncode`."""
        return self.returncode


class _ContextHandler(SubprocessHandler):
    """A handler of a process that the supervisor has started; the supervisor owns its streams."""

    def __init__(self, workers: WorkerSet, rank: int, command: Command) -> None:
        self.local_rank_id = rank
        self.global_rank = int(command.env["RANK"]) if command.env.get("RANK", "").isdigit() else None
        self.proc = _ContextProcess(workers, rank, command)
        self._files = []

    def close(self, death_sig: signal.Signals | None = None) -> None:
        """Signal its group unless it has ended: later, another group may have its number."""
        if self.proc.poll() is None:
            super().close(death_sig)


def _wrap(  # noqa: PLR0917 - the signature is torch's
    local_rank: int,
    fn: Callable[..., Any],
    args: dict[int, tuple[Any, ...]],
    envs: dict[int, dict[str, str]],
    stdout_redirects: dict[int, str],
    stderr_redirects: dict[int, str],
    ret_vals: dict[int, Any],
    queue_finished_reading_event: Any,
    numa_options: Any = None,
) -> None:
    """Run one rank's function in this process, as the user's own multiprocessing context does in a child."""
    os.environ.update(envs[local_rank])
    if cpus := numa.cpu_bindings(numa_options, len(args))[local_rank]:
        os.sched_setaffinity(0, cpus)
    with (
        get_std_cm(stdout_redirects[local_rank], redirect_stdout),
        get_std_cm(stderr_redirects[local_rank], redirect_stderr),
    ):
        ret_vals[local_rank].put(record(fn)(*args[local_rank]))
        queue_finished_reading_event.wait()

"""`LocalElasticAgent`: an agent whose workers are processes of this host, started through `start_processes`.

A worker's exit wakes the loop at once: a thread waits for the context of the current round and then wakes the mailbox.
While it runs, only that thread reads the context's result; afterwards the loop does. The loop gets a failure before
that thread has stopped the siblings. So the other nodes of a job do not wait for a worker that stops slowly.

Workers' failures are reported by global rank, and only those of workers that failed by themselves.
"""

import functools
import logging
import os
import signal
import threading
import time
from typing import Any, Protocol

from elasticjob_agent.metrics import prof
from elasticjob_agent.multiprocessing import (
    DefaultLogsSpecs,
    LogsSpecs,
    PContext,
    ProcessFailure,
    RunProcsResult,
    start_processes,
)
from elasticjob_agent.rendezvous.job_rendezvous import JobRendezvous
from elasticjob_agent.server import _timeouts
from elasticjob_agent.server._restart_policy import FAILURE_GRACE_S
from elasticjob_agent.server._uninterruptible import UninterruptibleMonitor, is_uninterruptible
from elasticjob_agent.server.api import SimpleElasticAgent
from elasticjob_agent.server.spec import WorkerSpec
from elasticjob_agent.server.types import RunResult, WorkerGroup, WorkerState
from elasticjob_agent.server.worker_env import worker_environment
from elasticjob_agent.supervisor import resolve_method
from elasticjob_agent.workers.macros import fill_in, fill_in_local_rank
from elasticjob_api import constants

__all__ = ["LocalElasticAgent"]

TORCHELASTIC_ENABLE_FILE_TIMER = "TORCHELASTIC_ENABLE_FILE_TIMER"
TORCHELASTIC_TIMER_FILE = "TORCHELASTIC_TIMER_FILE"
TORCHELASTIC_HEALTH_CHECK_PORT = constants.ENV_HEALTH_CHECK_PORT
TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT = "TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT"

_NEW_LOGS_SIGNATURE = (
    "logs_specs",
    "start_method",
    "exit_barrier_timeout",
    "log_line_prefix_template",
    "shutdown_timeout",
    "health_check_server",
    "uninterruptible_state_timeout",
)
_OLD_LOGS_SIGNATURE = ("start_method", "exit_barrier_timeout", "log_dir", "log_line_prefix_template")
_MISSED_POLLS = 3
_POLL_S = 1.0
_SETTLE_S = 0.02
"""Seconds after the first failure in which others count too, before the rest is stopped."""

log = logging.getLogger(__name__)


class HealthCheck(Protocol):
    """Anything that runs as long as the agent does."""

    def start(self) -> None:
        """Start."""

    def stop(self) -> None:
        """Stop."""


class LocalElasticAgent(SimpleElasticAgent):
    """An agent with local processes as workers.

    Newer form: `(spec, logs_specs, start_method="spawn", exit_barrier_timeout=300, log_line_prefix_template=None,
    shutdown_timeout=30, health_check_server=None, uninterruptible_state_timeout=None)`. Older form: `(spec,
    start_method="spawn", exit_barrier_timeout=300, log_dir=None, log_line_prefix_template=None)`; there `redirects` and
    `tee` of the spec select the destinations. Names of either form are accepted as keywords. With a rendezvous over
    etcd, functions cannot be forked: ValueError.
    """

    def __init__(self, spec: WorkerSpec, *args: Any, **kwargs: Any) -> None:
        given = _arguments(args, kwargs)
        super().__init__(spec, given.get("exit_barrier_timeout"), given.get("shutdown_timeout"))
        self._start_method: str | None = given.get("start_method", "spawn")
        _check_fork(spec, self._start_method)
        self._logs_specs: LogsSpecs = given.get("logs_specs") or DefaultLogsSpecs(
            log_dir=given.get("log_dir"), redirects=spec.redirects, tee=spec.tee
        )
        self._log_line_prefix_template: str | None = given.get("log_line_prefix_template")
        self._health_check_server: HealthCheck | None = given.get("health_check_server")
        limit_s = _timeouts.uninterruptible_timeout(given.get("uninterruptible_state_timeout"))
        self._uninterruptible = (
            None
            if limit_s is None
            else UninterruptibleMonitor(limit_s, clock=time.monotonic, is_uninterruptible=is_uninterruptible)
        )
        self._pcontext: PContext | None = None
        self._watcher: threading.Thread | None = None
        self._is_watched = False
        self._failures: RunProcsResult | None = None
        self._polled_s = time.monotonic()

    # -- workers ---------------------------------------------------------------------------------

    @prof
    def _start_workers(self, worker_group: WorkerGroup) -> dict[int, Any]:
        """Start all workers and return their pids by local rank."""
        self._start_health_check()
        spec, ranks = worker_group.spec, range(worker_group.spec.local_world_size)
        count = functools.partial(worker_environment, group=worker_group, restart_count=self._restart_count)
        envs = {worker.local_rank: count(worker, own=os.environ) for worker in worker_group.workers}
        if spec.entrypoint is None:
            raise AssertionError("the spec of a running agent has an entrypoint")
        try:
            self._pcontext = start_processes(
                name=spec.role,
                entrypoint=spec.entrypoint,
                args={rank: _arguments_of(spec, rank) for rank in ranks},
                envs=envs,
                logs_specs=self._logs_specs,
                log_line_prefixes=self._prefixes(worker_group),
                start_method=self._start_method,
                numa_options=spec.numa_options,
                duplicate_stdout_filters=spec.duplicate_stdout_filters,
                duplicate_stderr_filters=spec.duplicate_stderr_filters,
            )
        finally:
            # The context has installed handlers of its own, which raise; the agent's handlers only record.
            self._handlers.reinstall()
        self._pcontext.failure_grace_s = FAILURE_GRACE_S
        self._pcontext.settle_s = _SETTLE_S
        self._pcontext.on_failure = self._record_failures
        self._failures = None
        return self._pcontext.pids()

    def _prefixes(self, group: WorkerGroup) -> dict[int, str] | None:
        template = self._log_line_prefix_template
        if template is None:
            return None
        return {
            worker.local_rank: fill_in(
                template, {"role_name": group.spec.role, "rank": worker.global_rank, "local_rank": worker.local_rank}
            )
            for worker in group.workers
        }

    @prof
    def _stop_workers(self, worker_group: WorkerGroup) -> None:  # noqa: ARG002 - an agent has one group
        """Stop all workers: within the short grace after a failure, else within the shutdown timeout."""
        grace_s = self._shutdown_timeout if self._stop_grace_s is None else self._stop_grace_s
        self._stop_grace_s = None
        self._close(signal.SIGTERM, grace_s)

    def _shutdown(self, death_sig: signal.Signals = signal.SIGTERM, timeout: float = 30) -> None:
        """End the workers and the health checks."""
        if self._health_check_server is not None:
            self._health_check_server.stop()
        self._close(death_sig, timeout)

    def _close(self, death_sig: signal.Signals, timeout_s: float) -> None:
        """Close the context in a thread of its own, so that a second signal can end its grace."""
        context = self._pcontext
        if context is None:
            return

        def close() -> None:
            try:
                context.close(death_sig, timeout_s)  # type: ignore[arg-type]  # parts of seconds are fine
            finally:
                self._mailbox.wake()

        closing = threading.Thread(target=close, name="closing workers", daemon=True)
        closing.start()
        has_killed = False
        while closing.is_alive():
            if self._mailbox.is_urgent and not has_killed:
                has_killed = True
                context.close(signal.SIGKILL, 0)
            self._mailbox.wait(_POLL_S)  # the thread ends a moment after its wake
        closing.join()
        context.release_handlers()
        if self._watcher is not None:
            self._watcher.join()
            self._watcher = None

    # -- monitoring ------------------------------------------------------------------------------

    @prof
    def _monitor_workers(self, worker_group: WorkerGroup) -> RunResult:
        """Check the workers once."""
        self._polled_s = time.monotonic()
        context = self._pcontext
        if context is None:
            raise AssertionError("no workers have been started")
        if {worker.id for worker in worker_group.workers} != set(context.pids().values()):
            log.error("[%s] the ids of the workers differ from the pids of their processes", worker_group.spec.role)
            return RunResult(state=WorkerState.UNKNOWN)
        ended = self._failures if self._is_watched else context.wait(0)
        if ended is not None:
            return _translated(ended, worker_group)
        return self._kernel_state(context)

    def _kernel_state(self, context: PContext) -> RunResult:
        stuck = [] if self._uninterruptible is None else self._uninterruptible.stuck(context.pids().values())
        if not stuck:
            return RunResult(state=WorkerState.HEALTHY)
        log.error("workers with pids %s hang in the kernel and cannot be killed; no restart is possible", stuck)
        self._remaining_restarts, self._is_wedged = 0, True
        return RunResult(state=WorkerState.UNHEALTHY)

    def _wait_for_change(self, timeout: float) -> None:
        """Sleep until a worker ends, a signal comes or the rendezvous pushes; at most `timeout` seconds."""
        if self._watcher is None and self._pcontext is not None:
            self._watcher = threading.Thread(target=self._watch, args=(self._pcontext,), daemon=True)
            self._is_watched = True
            self._watcher.start()
        if self._uninterruptible is not None:
            timeout = min(timeout, max(self._uninterruptible.limit_s / 4, 0.01))
        super()._wait_for_change(timeout)

    def _record_failures(self, failures: dict[int, ProcessFailure]) -> None:
        """Record failures; the thread that waits for the context calls this before it stops the siblings."""
        self._failures = RunProcsResult(failures=failures)
        self._mailbox.wake()

    def _watch(self, context: PContext) -> None:
        try:
            context.wait(-1)
        finally:
            self._is_watched = False  # before the wake: the loop must find that it may read the result
            self._mailbox.wake()

    # -- health ----------------------------------------------------------------------------------

    def _start_health_check(self) -> None:
        if self._health_check_server is not None:
            self._health_check_server.start()
        elif TORCHELASTIC_HEALTH_CHECK_PORT in os.environ:
            from elasticjob_agent.net import health  # noqa: PLC0415 - few agents need the import of an HTTP server

            self._health_check_server = health.start_from_environment(self._is_alive, os.environ)

    def _is_alive(self) -> bool:
        """Return whether the loop has run lately; a pass takes at most the interval and a stop of the workers."""
        most_s = self._worker_group.spec.monitor_interval + self._shutdown_timeout
        return time.monotonic() - self._polled_s < _MISSED_POLLS * most_s


def _check_fork(spec: WorkerSpec, start_method: str | None) -> None:
    """Raise ValueError for a fork beside a rendezvous over etcd.

    A fork copies the locks of gRPC's threads without the threads, and sockets that make a dead agent look alive.
    """
    over_etcd = callable(spec.entrypoint) and isinstance(spec.rdzv_handler, JobRendezvous)
    if over_etcd and resolve_method(start_method) == "fork":
        raise ValueError(
            "start_method 'fork' cannot be used with a rendezvous over etcd. gRPC does not survive a fork, "
            "and the workers would hold this process's connections open. Use 'spawn' or 'forkserver'"
        )


def _arguments_of(spec: WorkerSpec, local_rank: int) -> tuple[Any, ...]:
    return tuple(fill_in_local_rank(each, local_rank) if isinstance(each, str) else each for each in spec.args)


def _translated(ended: RunProcsResult, group: WorkerGroup) -> RunResult:
    """Return the result by global rank; workers that were stopped by us are in neither map."""
    global_ranks = {worker.local_rank: worker.global_rank for worker in group.workers}
    if not ended.is_failed():
        values = {global_ranks[rank]: value for rank, value in ended.return_values.items()}
        return RunResult(state=WorkerState.SUCCEEDED, return_values=values)
    own = {global_ranks[rank]: failed for rank, failed in ended.failures.items() if not failed.stopped_by_us}
    for rank, failed in own.items():
        log.error("[%s] rank %d failed: exit code %d, pid %d", group.spec.role, rank, failed.exitcode, failed.pid)
    return RunResult(state=WorkerState.FAILED, failures=own)


def _arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments by name; raise TypeError for arguments of neither form, or of both."""
    is_newer = "logs_specs" in kwargs or (bool(args) and isinstance(args[0], LogsSpecs))
    order = _NEW_LOGS_SIGNATURE if is_newer else _OLD_LOGS_SIGNATURE
    by_place = dict(zip(order, args, strict=False))
    wrong = (set(kwargs) - {*_NEW_LOGS_SIGNATURE, *_OLD_LOGS_SIGNATURE}) | (set(by_place) & set(kwargs))
    if wrong or len(args) > len(order):
        raise TypeError(f"LocalElasticAgent got unexpected, doubled or too many arguments: {sorted(wrong)}")
    if is_newer and "log_dir" in kwargs:
        raise TypeError("LocalElasticAgent takes logs_specs or log_dir, not both")
    return {**by_place, **kwargs}

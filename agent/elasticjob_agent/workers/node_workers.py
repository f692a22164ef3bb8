"""The workers of one node as a group: start them for a round, detect the first failure at once, stop them all.

The first worker that fails by itself makes the group FAILED, and the caller then stops the rest. The phase is
`SUCCEEDED` or `NONE` only when no process of the workers' trees is left.

A worker that cannot be started is a failure with a reason, not an exception. So a missing command on one node is
reported to the whole job.
"""

import asyncio
import functools
import logging
import signal
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from elasticjob_agent.host.cpu_topology import Cpus
from elasticjob_agent.host.oom import OomCounter, find_folder
from elasticjob_agent.net.ports import ReservedPort
from elasticjob_agent.rendezvous.protocol.member_plan import Workers
from elasticjob_agent.rendezvous.protocol.ranks import Assignment
from elasticjob_agent.rendezvous.protocol.root_cause import is_own_failure
from elasticjob_agent.supervisor import Child, Command, Exit, StartError, Supervisor
from elasticjob_agent.workers import error_file
from elasticjob_agent.workers import log_dir as logs
from elasticjob_agent.workers.cpu_binding import cpus_of_rank
from elasticjob_agent.workers.env import WorkerPaths, worker_environment
from elasticjob_agent.workers.failure_recorder import FailureRecorder
from elasticjob_agent.workers.macros import fill_in_local_rank
from elasticjob_agent.workers.output import DEFAULT_OUTPUT, Output
from elasticjob_agent.workers.progress import ProgressFifo
from elasticjob_agent.workers.start_observer import StartObserver
from elasticjob_api.keys import FailureKey
from elasticjob_api.records import StartReport, WorkerFailure, WorkerReport, WorkerState
from elasticjob_api.runtime_config import RuntimeConfig

_MAX_TAILS = 16
"""Failures of a round that include the end of stderr: all are in one transaction, whose size etcd limits."""
_STDERR_DRAIN_S = 0.05
"""Seconds that a failure waits for the end of stderr, which is complete unless a child of the worker holds it open."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerTemplate:
    """The command of this node's workers with its settings, the same in every round."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    """The environment in which the agent was started."""
    cwd: str | None
    run_id: str
    pod: str
    host: str
    log_dir: Path
    stdout: Callable[[bytes], None]
    stderr: Callable[[bytes], None]
    output: Output = DEFAULT_OUTPUT
    virtual_local_rank: bool = False
    cpus: tuple[Cpus, ...] = ()
    """The processors of each local rank, if workers are bound; else empty."""


class WorkerStart(Protocol):
    """Starts workers cold or warm, and learns how they end."""

    @property
    def reason(self) -> str:
        """Return why the last workers were not started warm; empty if they were."""

    async def spawn(self, commands: Sequence[Command]) -> list[Child]:
        """Start all of these. Raises StartError if one cannot be started."""

    def stop_waiting(self) -> None:
        """Let a start that waits for imports go on without them: its workers are to be stopped."""

    def worker_failed(self, end: Exit, *, has_progress: bool) -> None:
        """Record that a worker has failed by itself, and whether any has reported progress."""


_Launch = tuple[Command, logs.WorkerLogs, error_file.StderrTail]


@dataclass(slots=True)
class _Worker:
    child: Child
    rank: int
    local_rank: int
    files: logs.WorkerLogs
    tail: error_file.StderrTail
    end: Exit | None = None


class NodeWorkers:
    """The workers of one node; implements `rendezvous.protocol.interfaces.WorkersPort`."""

    def __init__(
        self,
        *,
        supervisor: Supervisor,
        starter: WorkerStart | None = None,
        template: WorkerTemplate,
        port: ReservedPort,
        progress: ProgressFifo,
        wall_ns: Callable[[], int],
        memory: OomCounter | None = None,
        kept_steps: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        """`starter` starts the workers; None: the supervisor does. `kept_steps` returns a round's variables of Keep.

        `wall_ns` is the wall clock in ns, for reports only; `memory` None: the kill counter of this container.
        """
        self._supervisor = supervisor
        self._starter = starter
        self._template = template
        self._port = port
        self._progress = progress
        self._wall_ns = wall_ns
        self._kept_steps = kept_steps
        counter = memory or OomCounter(find_folder())
        self._failure_recorder = FailureRecorder(
            pod=template.pod,
            host=template.host,
            memory=counter,
            has_progress=lambda: progress.last is not None,
            has_output=lambda: any(worker.files.has_output() for worker in self._workers),
        )
        self._workers: list[_Worker] = []
        self._start_observer: StartObserver | None = None
        self._cold_reason = ""
        self._assignment: Assignment | None = None
        self._ending: set[asyncio.Task[None]] = set()
        self._finishing: list[asyncio.Task[None]] = []
        self._stopping = False
        self._starting: asyncio.Task[None] | None = None
        self._error: BaseException | None = None
        self._phase = Workers.NONE
        self.failures: dict[FailureKey, WorkerFailure] = {}
        self.on_change: Callable[[], None] = lambda: None
        self.on_report: Callable[[], None] = lambda: None

    @property
    def phase(self) -> Workers:
        """The phase of the group. Raises the error of an internal task, if one failed."""
        if self._error is not None:  # an error of this code ends the agent, not the job
            raise self._error
        return self._phase

    @property
    def assignment(self) -> Assignment | None:
        """The assignment of this node in the round that was started last."""
        return self._assignment

    @property
    def started_ns(self) -> int | None:
        """The wall clock time (ns) at which the last worker of that round was started; None before."""
        return max((worker.child.started_at_ns for worker in self._workers), default=None)

    def renew_master_port(self) -> int:
        """Hold a new port for rank 0 of the next round, and return it."""
        return self._port.acquire()

    # -- start -----------------------------------------------------------------------------------

    async def start(self, assignment: Assignment, config: RuntimeConfig) -> None:
        """Begin to start all workers of `assignment`, without waiting; a worker that cannot start makes it FAILED."""
        # An exec may hang on a dead file system, and this node must still be able to leave. So this does not wait.
        self._assignment, self.failures, self._workers, self._stopping = assignment, {}, [], False
        if self._starter is not None:
            self._start_observer = StartObserver(self._wall_ns, self.on_report)
        self._port.release()
        self._progress.forget()
        self._failure_recorder.round_started(time.monotonic())
        self._phase = Workers.RUNNING
        log.info(
            "rendezvous complete: round %d, node %d of %d, master %s:%d",
            assignment.round,
            assignment.group_rank,
            assignment.group_world_size,
            assignment.master_addr,
            assignment.master_port,
        )
        try:
            logs.prune(self._template.log_dir, assignment.round)
            launches = [self._prepare(assignment, config, local_rank) for local_rank in range(assignment.nproc)]
        except OSError as error:  # the disk of the logs is full, for example
            self._start_failed(assignment, StartError(f"not started: {error}"))
            return
        self._starting = self._spawn_task(self._start_all(assignment, launches))

    async def _start_all(self, assignment: Assignment, launches: list[_Launch]) -> None:
        try:
            children = await (self._starter or self._supervisor).spawn([command for command, _, _ in launches])
        except StartError as error:
            self._start_failed(assignment, error)
            return
        self._cold_reason = self._starter.reason if self._starter is not None else ""
        for local_rank, (child, (_, files, tail)) in enumerate(zip(children, launches, strict=True)):
            worker = _Worker(child, assignment.base_rank + local_rank, local_rank, files, tail)
            self._workers.append(worker)
            child.exit.add_done_callback(functools.partial(self._on_exit, worker))
        log.info(
            "round %d: ranks %d-%d of %d are running (restart %d)",
            assignment.round,
            assignment.base_rank,
            assignment.base_rank + assignment.nproc - 1,
            assignment.world_size,
            assignment.restart_count,
        )
        self._changed()

    def _prepare(self, assignment: Assignment, config: RuntimeConfig, local_rank: int) -> _Launch:
        rank = assignment.base_rank + local_rank
        files = logs.worker_logs(self._template.log_dir, assignment.round, rank)
        job = self._template
        tail = error_file.StderrTail(job.output.prefix(assignment, local_rank))
        command = Command(
            name=f"rank {rank}",
            argv=tuple(fill_in_local_rank(argument, local_rank) for argument in self._template.argv),
            env=worker_environment(
                self._template.environment,
                assignment,
                local_rank=local_rank,
                run_id=self._template.run_id,
                max_restarts=config.max_restarts,
                paths=WorkerPaths(error_file=str(files.error_file), progress=str(self._progress.path)),
                virtual=job.virtual_local_rank,
                kept_steps=self._kept_steps(),
            ),
            cwd=self._template.cwd,
            cpus=cpus_of_rank(job.cpus, local_rank),
            stdout=job.output.stdout(assignment, local_rank, files, job.stdout),
            stderr=job.output.stderr(assignment, local_rank, files, job.stderr, tail.add),
        )
        return self._start_observer.observe(command) if self._start_observer else command, files, tail

    def _start_failed(self, assignment: Assignment, error: StartError) -> None:
        failure = self._failure_recorder.record_start_error(assignment, error, self._wall_ns())
        self.failures = {assignment.failure_key(0): failure}
        if self._phase is Workers.RUNNING:
            self._phase = Workers.FAILED
        self._changed()

    # -- ends ------------------------------------------------------------------------------------

    def _on_exit(self, worker: _Worker, exited: "asyncio.Future[Exit]") -> None:
        end = worker.end = exited.result()
        if end.code != 0 and not end.stopped_by_us and self._starter is not None:
            self._starter.worker_failed(end, has_progress=self._progress.last is not None)
        if end.code != 0:
            self._finishing.append(self._spawn_task(self._record_failure(worker, end)))
        elif self._stopping or end.stopped_by_us:
            self.on_report()
        elif all(w.end is not None and w.end.code == 0 for w in self._workers):
            self._spawn_task(self._record_success())
        else:
            self.on_report()

    async def _record_failure(self, worker: _Worker, end: Exit) -> None:
        """Record the failure of a worker, with the end of its stderr."""
        # A worker that ended by our signal has no failure. But it may have crashed or reported an error before. Its
        # peers can notice the lost connection, and fail, before the agent notices its end.
        assignment = self._assignment
        if assignment is None:
            return
        if not end.stopped_by_us:
            await asyncio.wait([worker.child.drained], timeout=_STDERR_DRAIN_S)
        failure = self._failure_recorder.record(
            assignment,
            worker.local_rank,
            end,
            pid=worker.child.pid,
            started_at_ns=worker.child.started_at_ns,
            reported=error_file.read_error_file(worker.files.error_file),
            tail=worker.tail,
        )
        if end.stopped_by_us and not is_own_failure(failure):
            self.on_report()
            return
        if len(self.failures) >= _MAX_TAILS:
            failure = replace(failure, stderr="")
        self.failures[assignment.failure_key(worker.local_rank)] = failure
        if self._phase is Workers.RUNNING:
            self._phase = Workers.FAILED
        self._changed()

    async def _record_success(self) -> None:
        await self._supervisor.sweep([worker.child for worker in self._workers])
        if self._phase is Workers.RUNNING:
            self._phase = Workers.SUCCEEDED
        self._changed()

    def stop(self, *, grace_s: float, signal_name: str) -> None:
        """Begin to stop all workers; a second call may shorten the grace."""
        if self._phase in {Workers.NONE, Workers.SUCCEEDED}:
            return
        self._stopping = True
        self._phase = Workers.STOPPING
        if self._starter is not None:
            self._starter.stop_waiting()
        self._spawn_task(self._stop(grace_s, signal.Signals[signal_name]))

    def kill(self) -> None:
        """Kill all workers at once, as after a second signal."""
        self.stop(grace_s=0.0, signal_name=signal.SIGKILL.name)

    async def _stop(self, grace_s: float, sig: signal.Signals) -> None:
        if self._starting is not None:
            await asyncio.wait([self._starting])  # a half-started worker cannot be stopped; the spawn itself is atomic
        await self._supervisor.stop([worker.child for worker in self._workers], sig=sig, grace_s=grace_s)
        # Failures are recorded before this node reports that it is ready, so the leader has all of them at the barrier.
        await asyncio.gather(*self._finishing)
        self._finishing.clear()
        if self._phase is Workers.STOPPING:
            self._phase = Workers.NONE
        self._changed()

    # -- reports ---------------------------------------------------------------------------------

    def reports(self) -> tuple[WorkerReport, ...]:
        """Return the current state of each worker; the reporter adds memory and cpu."""
        return tuple(
            WorkerReport(
                rank=worker.rank,
                state=self._state(worker),
                pid=worker.child.pid,
                exit_code=None if worker.end is None else worker.end.code,
            )
            for worker in self._workers
        )

    def start_report(self) -> StartReport | None:
        """Return how the workers were started; None before that, and while warm start is off."""
        if self._start_observer is None or not self._workers:
            return None
        return self._start_observer.report([worker.child for worker in self._workers], self._cold_reason)

    def _state(self, worker: _Worker) -> WorkerState:
        if worker.end is None:
            return WorkerState.UNHEALTHY if worker.child.wedged else WorkerState.HEALTHY
        if worker.end.stopped_by_us:
            return WorkerState.STOPPED
        return WorkerState.SUCCEEDED if worker.end.code == 0 else WorkerState.FAILED

    def _changed(self) -> None:
        self.on_change()
        self.on_report()

    def _spawn_task(self, coroutine: Coroutine[None, None, None]) -> "asyncio.Task[None]":
        task = asyncio.create_task(coroutine)
        self._ending.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._ending.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._error = error
            self.on_change()

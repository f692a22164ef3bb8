"""The skeleton of an agent in torch elastic's form: rendezvous, ranks, the loop, the exit barrier, events, metrics.

Subclasses of `SimpleElasticAgent` define how workers are started, monitored and stopped. It works with any
`RendezvousHandler`. One that knows the whole job (`JobRendezvous`) itself decides what a failure costs and when the job
has ended.

Signals are messages in the agent's mailbox and are handled between its steps, so that no step is left half done. A step
that may take long runs in a thread of its own; a signal abandons it.
"""

import abc
import concurrent.futures
import contextlib
import contextvars
import functools
import inspect
import json
import logging
import os
import signal
import socket
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from elasticjob_agent import multiprocessing  # its names are loaded at first use: few agents end by a signal
from elasticjob_agent.events import Event, EventSource, record
from elasticjob_agent.metrics import prof, put_metric
from elasticjob_agent.net.ports import ReservedPort
from elasticjob_agent.rendezvous.errors import is_graceful_exit
from elasticjob_agent.rendezvous.interface import RendezvousHandler, RendezvousInfo, as_rendezvous_info
from elasticjob_agent.rendezvous.job_rendezvous import JobRendezvous, LocalFailure
from elasticjob_agent.rendezvous.protocol.ranks import Assignment
from elasticjob_agent.rendezvous.protocol.startup_failure import WORKING_LIFE_S
from elasticjob_agent.rendezvous.store import Store
from elasticjob_agent.server import _timeouts, ranks
from elasticjob_agent.server._mailbox import Mailbox
from elasticjob_agent.server._restart_policy import (
    JobRestartPolicy,
    LocalRestartPolicy,
    RestartPolicy,
    failures_for_job,
)
from elasticjob_agent.server._signals import SignalHandlers
from elasticjob_agent.server.ranks import _RoleInstanceInfo
from elasticjob_agent.server.spec import WorkerSpec
from elasticjob_agent.server.types import RunResult, Worker, WorkerGroup, WorkerState
from elasticjob_agent.utils import store as store_util
from elasticjob_api import constants

__all__ = [
    "DEFAULT_ROLE",
    "ElasticAgent",
    "RunResult",
    "SimpleElasticAgent",
    "Worker",
    "WorkerGroup",
    "WorkerSpec",
    "WorkerState",
]

DEFAULT_ROLE = "default"
_TERMINAL_STATE_SYNC_ID = "torchelastic/agent/terminal_state"
_ROLE_INFO_PREFIX = "torchelastic/role_info"
_POLL_S = 1.0
"""Maximum seconds between two requests to a rendezvous that does not push."""

T = TypeVar("T")

log = logging.getLogger(__name__)


class ElasticAgent(abc.ABC):
    """An agent, which runs the workers of one role on one node and keeps them running."""

    @abc.abstractmethod
    def run(self, role: str = DEFAULT_ROLE) -> RunResult:
        """Run the workers to their end; raise only for reasons other than the failure of a worker.

        Args:
            role: an agent has one role; the name is ignored.

        Returns:
            The result of the workers; it contains their failures, which are not raised.
        """

    @abc.abstractmethod
    def get_worker_group(self, role: str = DEFAULT_ROLE) -> WorkerGroup:
        """Return the workers: the live object."""


class SimpleElasticAgent(ElasticAgent):
    """An agent with one group of workers; the module describes it."""

    def __init__(
        self, spec: WorkerSpec, exit_barrier_timeout: float | None = None, shutdown_timeout: float | None = None
    ) -> None:
        """Take timeouts in seconds; None for the environment's, or else 300 and 30.

        Raises:
            ValueError: one is negative.
        """
        self._worker_group = WorkerGroup(spec)
        self._remaining_restarts: int = spec.max_restarts
        self._store: Store | None = None
        self._exit_barrier_timeout = _timeouts.exit_barrier_timeout(exit_barrier_timeout)
        self._shutdown_timeout = _timeouts.shutdown_timeout(shutdown_timeout)
        self._total_execution_time = 0
        self._start_s = self._started_s = 0.0
        self._start_error: Exception | None = None
        self._is_wedged = False
        self._port: ReservedPort | None = None
        self._restart_count_of_job: int | None = None
        self._stop_grace_s: float | None = None
        self._mailbox = Mailbox(self._on_second_signal)
        self._handlers = SignalHandlers(self.stop)
        self._is_running = False
        self._restart_policy: RestartPolicy = LocalRestartPolicy(self)

    def get_worker_group(self, role: str = DEFAULT_ROLE) -> WorkerGroup:  # noqa: ARG002 - an agent has one role
        """Return the workers: the live object."""
        return self._worker_group

    def stop(self, death_sig: signal.Signals = signal.SIGTERM) -> None:
        """Make `run` end as after that signal, from any thread; a second call kills at once."""
        self._mailbox.signal(signal.Signals(death_sig))

    # -- for subclasses --------------------------------------------------------------------------

    @abc.abstractmethod
    def _start_workers(self, worker_group: WorkerGroup) -> dict[int, Any]:
        """Start all workers and return their ids by local rank."""

    @abc.abstractmethod
    def _stop_workers(self, worker_group: WorkerGroup) -> None:
        """Stop all workers; return when none is left."""

    @abc.abstractmethod
    def _monitor_workers(self, worker_group: WorkerGroup) -> RunResult:
        """Check the workers once, without waiting."""

    @abc.abstractmethod
    def _shutdown(self, death_sig: signal.Signals = signal.SIGTERM, timeout: float = 30) -> None:
        """End everything of the agent's: workers with `death_sig`, and SIGKILL after `timeout` seconds."""

    def _on_second_signal(self) -> None:
        """Kill at once what is being stopped, because a second signal came; must not block."""

    def _wait_for_change(self, timeout: float) -> None:
        """Sleep until a signal or a push, at most `timeout` seconds."""
        is_pushed = isinstance(self._worker_group.spec.rdzv_handler, JobRendezvous)
        self._mailbox.wait(timeout if is_pushed else min(timeout, _POLL_S))

    def _failures_for_job(self, result: RunResult) -> Sequence[LocalFailure]:
        """Return the failures of a group for a rendezvous that knows the job."""
        return failures_for_job(result, is_early=self._is_early)

    # -- signals, between steps ------------------------------------------------------------------

    def _act_on_signal(self) -> None:
        """Raise SignalException if a signal came."""
        if self._is_running and self._mailbox.first is not None:
            sigval = self._mailbox.first
            raise multiprocessing.SignalException(f"Process {os.getpid()} got signal: {sigval.value}", sigval=sigval)

    def _call_interruptibly(self, call: Callable[[], T]) -> T:
        """Return the value of `call`; while the agent runs, call it in another thread, which a signal abandons."""
        if not self._is_running:
            return call()
        future: concurrent.futures.Future[T] = concurrent.futures.Future()
        context = contextvars.copy_context()

        def work() -> None:
            try:
                future.set_result(context.run(call))
            except BaseException as error:  # noqa: BLE001 - it is raised in the agent's thread
                future.set_exception(error)
            self._mailbox.wake()

        threading.Thread(target=work, name="elastic agent step", daemon=True).start()
        while not future.done():
            self._act_on_signal()
            self._mailbox.wait(None)
        return future.result()

    # -- ranks -----------------------------------------------------------------------------------

    @prof
    def _rendezvous(self, worker_group: WorkerGroup) -> None:
        """Wait for the next round, and assign the workers their ranks in it."""
        spec = worker_group.spec
        with self.record_duration("RENDEZVOUS"):
            info = as_rendezvous_info(self._call_interruptibly(self._rdzv_handler.next_rendezvous))
        store, group_rank, group_world_size = info
        self._store = store
        with self.record_duration("ASSIGN_WORKER_RANKS"):
            if info.assignment is not None:
                workers = self._take_assignment(info.assignment)
            else:
                workers = self._call_interruptibly(
                    lambda: self._assign_worker_ranks(store, group_rank, group_world_size, spec)
                )
        worker_group.workers = workers
        worker_group.store = store
        worker_group.group_rank = group_rank
        worker_group.group_world_size = group_world_size
        worker_group.master_addr, worker_group.master_port = self._agree_on_master(info)
        log.info(
            "[%s] rendezvous complete: node %d of %d, ranks %s, master %s:%s, restart count %d",
            spec.role,
            group_rank,
            group_world_size,
            [worker.global_rank for worker in workers],
            worker_group.master_addr,
            worker_group.master_port,
            self._restart_count,
        )

    def _agree_on_master(self, info: RendezvousInfo) -> tuple[str, int]:
        """Return rank 0's address: from the workers' spec, else the rendezvous, else rank 0's record in the store."""
        spec = self._worker_group.spec
        bootstrap = info.bootstrap_store_info
        if bootstrap is not None:
            return spec.master_addr or bootstrap.master_addr, spec.master_port or bootstrap.master_port
        store, group_rank, _ = info
        if group_rank == 0:
            self._set_master_addr_port(store, spec.master_addr, self._fresh_port(), spec.local_addr)
        return self._call_interruptibly(lambda: self._get_master_addr_port(store))

    def _fresh_port(self) -> int:
        """Return the port of the spec, or a new one that is reserved until the workers start."""
        spec = self._worker_group.spec
        if spec.master_port is not None:
            return spec.master_port
        self._port = self._port or ReservedPort()
        port = self._port.acquire()
        if not self._is_running:  # no run would release it
            self._port.release()
        return port

    def _take_assignment(self, assignment: Assignment) -> list[Worker]:
        """Return workers with the ranks of the rendezvous, and set the job's own count of restarts."""
        self._restart_count_of_job = assignment.restart_count
        self._remaining_restarts = max(0, self._worker_group.spec.max_restarts - assignment.restart_count)
        return [
            Worker(
                local_rank=local_rank,
                global_rank=assignment.base_rank + local_rank,
                role_rank=assignment.role_base_rank + local_rank,
                world_size=assignment.world_size,
                role_world_size=assignment.role_world_size,
            )
            for local_rank in range(assignment.nproc)
        ]

    @prof
    def _assign_worker_ranks(
        self, store: Any, group_rank: int, group_world_size: int, spec: WorkerSpec
    ) -> list[Worker]:
        """Return the workers of this node with all their ranks; the nodes exchange their sizes through the store."""
        if os.environ.get("TORCH_ELASTIC_WORKER_IDENTICAL") == "1":
            role_infos = [_RoleInstanceInfo(spec.role, rank, spec.local_world_size) for rank in range(group_world_size)]
        else:
            role_infos = self._share_and_gather(store, group_rank, group_world_size, spec)
        mine = role_infos[group_rank]
        world_size, global_ranks = self._get_ranks(role_infos, group_rank)
        by_role = ranks.sorted_by_role(role_infos)
        first, last = _RoleInstanceInfo.find_role_boundaries(by_role, mine.role)
        role_size, role_ranks = self._get_ranks(by_role, by_role.index(mine), first, last + 1)
        return [
            Worker(
                local_rank=local_rank,
                global_rank=global_ranks[local_rank],
                role_rank=role_ranks[local_rank],
                world_size=world_size,
                role_world_size=role_size,
            )
            for local_rank in range(spec.local_world_size)
        ]

    def _share_and_gather(
        self, store: Any, group_rank: int, group_world_size: int, spec: WorkerSpec
    ) -> list[_RoleInstanceInfo]:
        """Return every node's (role, rank, size), in rank order."""
        mine = _RoleInstanceInfo(spec.role, group_rank, spec.local_world_size)
        records = store_util.synchronize(store, mine.serialize(), group_rank, group_world_size, _ROLE_INFO_PREFIX)
        return [_RoleInstanceInfo.deserialize(data) for data in records]

    def _get_ranks(
        self, role_infos: list[_RoleInstanceInfo], role_idx: int, start_idx: int = 0, end_idx: int = -1
    ) -> tuple[int, list[int]]:
        return ranks.get_ranks(role_infos, role_idx, start_idx, end_idx)

    @staticmethod
    def _set_master_addr_port(
        store: Any, master_addr: str | None, master_port: int | None, local_addr: str | None = None
    ) -> None:
        """Write rank 0's address to the store; find out the missing parts."""
        if master_port is None:
            with contextlib.closing(_get_socket_with_port()) as free:
                master_port = free.getsockname()[1]
        store.set("MASTER_ADDR", (master_addr or local_addr or _own_address()).encode())
        store.set("MASTER_PORT", str(master_port).encode())

    @staticmethod
    def _get_master_addr_port(store: Any) -> tuple[str, int]:
        return store.get("MASTER_ADDR").decode(), int(store.get("MASTER_PORT").decode())

    # -- starting and restarting -----------------------------------------------------------------

    @prof
    def _initialize_workers(self, worker_group: WorkerGroup) -> None:
        """Start a new round: rendezvous, ranks, workers."""
        self._rendezvous(worker_group)
        self._act_on_signal()
        if self._port is not None:
            self._port.release()
        for local_rank, worker_id in self._start_all(worker_group).items():
            worker_group.workers[local_rank].id = worker_id
        worker_group.state = WorkerState.HEALTHY
        for worker in worker_group.workers:
            record(self._construct_event("START", EventSource.WORKER, worker), worker_group.spec.event_log_handler)

    def _start_all(self, worker_group: WorkerGroup) -> dict[int, Any]:
        self._started_s = time.monotonic()
        try:
            return self._start_workers(worker_group)
        except Exception as error:
            self._start_error = error
            raise

    @property
    def _is_early(self) -> bool:
        """Whether the workers were last started only a short time ago."""
        return time.monotonic() - self._started_s < WORKING_LIFE_S

    @prof
    def _restart_workers(self, worker_group: WorkerGroup) -> None:
        """Stop the rest of this round, and start the next."""
        log.info("[%s] stopping the worker group for a new round", worker_group.spec.role)
        try:
            self._stop_workers(worker_group)
            worker_group.state = WorkerState.STOPPED
            self._act_on_signal()
            self._initialize_workers(worker_group)
        except multiprocessing.SignalException:
            raise
        except Exception as error:
            if not is_graceful_exit(error):
                worker_group.state = WorkerState.UNKNOWN
            raise

    @property
    def _restart_count(self) -> int:
        """Return TORCHELASTIC_RESTART_COUNT of workers: the job's own count if the rendezvous has it."""
        if self._restart_count_of_job is not None:
            return self._restart_count_of_job
        return self._worker_group.spec.max_restarts - self._remaining_restarts

    @property
    def _rdzv_handler(self) -> RendezvousHandler:
        handler = self._worker_group.spec.rdzv_handler
        if handler is None:
            raise ValueError("spec.rdzv_handler is None; a rendezvous handler is needed to run")
        return handler

    # -- the run ---------------------------------------------------------------------------------

    @prof
    def run(self, role: str = DEFAULT_ROLE) -> RunResult:
        """Run the workers to their end.

        Raises:
            SignalException: a signal, or `stop`, ended the agent.
            RendezvousError: the rendezvous failed.
            Exception: any error that prevents the start of the workers.
        """
        self._start_s = time.monotonic()
        handler = self._worker_group.spec.rdzv_handler
        self._restart_policy = (
            JobRestartPolicy(self, handler) if isinstance(handler, JobRendezvous) else LocalRestartPolicy(self)
        )
        self._is_running = True
        try:
            with self._handlers.installed():
                result = self._run_and_shut_down(role)
            # The handlers are removed: from here on a signal ends the process. Signals from before are not lost.
            self._act_on_signal()
            return result
        finally:
            self._is_running = False
            self._mailbox = Mailbox(self._on_second_signal)

    def _run_and_shut_down(self, role: str) -> RunResult:
        try:
            result = self._run_and_report(role)
            self._act_on_signal()
        except multiprocessing.SignalException as interrupted:
            log.warning("[%s] %s; the agent ends", role, interrupted)
            self._restart_policy.on_signal()
            self._end(interrupted.sigval)
            raise
        except BaseException:
            self._end(signal.SIGTERM)
            raise
        self._end(signal.SIGTERM)
        return result

    def _run_and_report(self, role: str) -> RunResult:
        try:
            result = self._invoke_run(role)
        except Exception as left:
            if not is_graceful_exit(left):
                raise
            log.info("[%s] left the rendezvous: %s", role, left)
            return RunResult(state=WorkerState.STOPPED)
        self._run_logging_errors(lambda: self._record_metrics(result))
        self._run_logging_errors(lambda: self._record_worker_events(result))
        return result

    def _end(self, death_sig: signal.Signals) -> None:
        """Call `_shutdown` once with the arguments that it accepts, then leave the rendezvous."""
        try:
            _call_compatibly(self._shutdown, death_sig, timeout=self._shutdown_timeout)
        finally:
            self._total_execution_time = int(time.monotonic() - self._start_s)
            if self._port is not None:
                self._port.release()
            self._restart_policy.leave()

    def _invoke_run(self, role: str = DEFAULT_ROLE) -> RunResult:
        """Run the loop: one pass for each change, and at least one every monitor_interval."""
        group = self._worker_group
        log.info("[%s] starting workers for entrypoint: %s", group.spec.role, group.spec.get_entrypoint_name())
        result = self._restart_policy.begin(group)
        while result is None:
            self._wait_for_change(group.spec.monitor_interval)
            self._act_on_signal()
            result = self._monitor_once(group, role)
        return result

    def _monitor_once(self, group: WorkerGroup, role: str) -> RunResult | None:
        """Check once and act on it; return the result once there is one."""
        result = self._monitor_workers(group)
        group.state = result.state
        self._run_logging_errors(lambda: self._put_monitor_metrics(result.state))
        if result.state is WorkerState.SUCCEEDED:
            log.info("[%s] all workers of this node succeeded; waiting for the other nodes", role)
            return self._restart_policy.succeeded(group, result)
        if result.state in {WorkerState.UNHEALTHY, WorkerState.FAILED}:
            return self._restart_policy.failed(group, result)
        if result.state is WorkerState.HEALTHY:
            return self._restart_policy.healthy(group)
        raise RuntimeError(f"[{role}] worker group is in state {result.state.name}, which no worker can recover from")

    def _exit_barrier(self) -> None:
        """Wait until all agents are done; errors are logged and change nothing, and a signal ends the wait at once."""
        if self._store is None:
            return
        store, size = self._store, self._worker_group.group_world_size
        log.info("waiting %g s for the other agents to finish", self._exit_barrier_timeout)
        try:
            self._call_interruptibly(
                lambda: store_util.barrier(
                    store=store,
                    world_size=size or 1,
                    key_prefix=_TERMINAL_STATE_SYNC_ID,
                    barrier_timeout=self._exit_barrier_timeout,
                )
            )
        except multiprocessing.SignalException:
            raise
        except Exception:
            log.exception("the exit barrier failed; the result of this node is unchanged")

    @contextlib.contextmanager
    def _report_success_on_signal(self, result: RunResult) -> Iterator[None]:
        """Report the workers' success even if a signal ends the agent inside the block."""
        try:
            yield
        except multiprocessing.SignalException:
            self._run_logging_errors(lambda: self._record_worker_events(result))
            raise

    # -- events ----------------------------------------------------------------------------------

    def get_event_failed(self) -> Event:
        """Return the event of the agent's failure, with the traceback of the exception being handled."""
        return self._construct_event("FAILED", EventSource.AGENT, raw_error=traceback.format_exc())

    def get_event_succeeded(self) -> Event:
        """Return the event of the agent's success."""
        return self._construct_event("SUCCEEDED", EventSource.AGENT)

    def _construct_event(  # noqa: PLR0917 - the order of the API
        self,
        state: str,
        source: EventSource,
        worker: Worker | None = None,
        raw_error: str | None = None,
        duration_ms: float | None = None,
        exit_code: int | None = None,
        worker_pid: int | None = None,
    ) -> Event:
        group, spec, handler = self._worker_group, self._worker_group.spec, self._rdzv_handler
        inner: dict[str, Any] = {
            "group_world_size": group.group_world_size,
            "entry_point": spec.get_entrypoint_name(),
        }
        if worker is not None:
            # One-element lists: consumers of torch elastic's events parse them as such.
            inner |= {
                "local_rank": [worker.local_rank],
                "role_rank": [worker.role_rank],
                "role_world_size": [worker.role_world_size],
                "exit_code": [exit_code],
                "worker_pid": [worker_pid],
            }
        return Event(
            name=f"torchelastic.worker.status.{state}",
            source=source,
            timestamp=time.time_ns() // 1_000_000,
            metadata={
                "run_id": handler.get_run_id(),
                "global_rank": None if worker is None else worker.global_rank,
                "group_rank": group.group_rank,
                "worker_id": None if worker is None else str(worker.id),
                "role": spec.role,
                "hostname": self._hostname(),
                "state": state,
                "total_run_time": self._total_execution_time,
                "rdzv_backend": handler.get_backend(),
                "raw_error": raw_error,
                "metadata": json.dumps(inner),
                "agent_restarts": self._restart_count,
                "duration_ms": duration_ms,
            },
        )

    def _hostname(self) -> str:
        """Return the name of this host for events."""
        return _get_fq_hostname()

    def _record_worker_events(self, result: RunResult) -> None:
        """Record one event for each worker, about its end."""
        for worker in self._worker_group.workers:
            failure = result.failures.get(worker.global_rank)
            event = self._construct_event(
                self._get_worker_state(worker, result),
                EventSource.WORKER,
                worker,
                raw_error=None if failure is None else json.dumps(failure.error_file_data),
                exit_code=None if failure is None else failure.exitcode,
                worker_pid=None if failure is None else failure.pid,
            )
            record(event, self._worker_group.spec.event_log_handler)

    def _get_worker_state(self, worker: Worker, result: RunResult) -> str:
        """Return a worker's state: FAILED for root causes only.

        Raises:
            ValueError: the worker is in neither map of a successful result.
        """
        failed = worker.global_rank in result.failures
        if result.state in {WorkerState.UNHEALTHY, WorkerState.FAILED} and not failed:
            return "TERMINATED"
        if failed or worker.global_rank in result.return_values:
            return result.state.value
        raise ValueError(f"worker of global rank {worker.global_rank} is unknown to the result of its group")

    @contextlib.contextmanager
    def record_duration(self, state: str) -> Iterator[None]:
        """Record an event of the agent for `state`, with the milliseconds spent inside."""
        start_s = time.monotonic()
        try:
            yield
        finally:
            took_ms = int((time.monotonic() - start_s) * 1000)
            event = self._construct_event(state, EventSource.AGENT, duration_ms=took_ms)
            record(event, self._worker_group.spec.event_log_handler)

    # -- metrics ---------------------------------------------------------------------------------

    def _put_monitor_metrics(self, state: WorkerState) -> None:
        role = self._worker_group.spec.role
        put_metric(f"workers.{role}.remaining_restarts", self._remaining_restarts)
        put_metric(f"workers.{role}.{state.name.lower()}", 1)

    def _record_metrics(self, result: RunResult) -> None:
        """Record how this run ended, and after how many restarts."""
        failed, restarted = result.is_failed(), self._restart_count > 0
        self._record_flakiness_metric(failed)
        put_metric(f"workers.{self._worker_group.spec.role}.run_total", 1)
        self._record_metric_with_condition("run_success_with_retries", not failed and restarted)
        self._record_metric_with_condition("run_success_no_retries", not failed and not restarted)
        self._record_metric_with_condition("run_failed_with_retries", failed and restarted)
        self._record_metric_with_condition("run_failed_no_retries", failed and not restarted)

    def _record_metric_with_condition(self, metric_name: str, condition: bool) -> None:  # noqa: FBT001 - as in the API
        put_metric(f"workers.{self._worker_group.spec.role}.{metric_name}", int(condition))

    def _record_flakiness_metric(self, is_failed: bool = False) -> None:  # noqa: FBT001, FBT002 - as in the API
        """Record the percentage of the budget that was used; 100 for a failure."""
        spec = self._worker_group.spec
        used = 100 - 100 * (self._remaining_restarts + 1) / (spec.max_restarts + 1)
        put_metric(f"workers.{spec.role}.flakiness", 100 if is_failed else int(used))

    @staticmethod
    def _run_logging_errors(action: Callable[[], None]) -> None:
        """Run an action whose errors are logged, because reports never change a run."""
        try:
            action()
        except Exception:
            log.exception("could not record events or metrics; the run continues")


def _call_compatibly(shutdown: Callable[..., Any], death_sig: signal.Signals, *, timeout: float) -> None:
    """Call an override of `_shutdown`; those for older versions take no timeout, or no argument at all."""
    kinds = inspect.Parameter
    parameters = inspect.signature(shutdown).parameters.values()
    by_place = {kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD, kinds.VAR_POSITIONAL}
    takes_signal = any(p.kind in by_place and p.name != "timeout" for p in parameters)
    takes_timeout = any(p.name == "timeout" or p.kind is kinds.VAR_KEYWORD for p in parameters)
    shutdown(*((death_sig,) if takes_signal else ()), **({"timeout": timeout} if takes_timeout else {}))


@functools.cache
def _get_fq_hostname() -> str:
    """Return the full name of this host; looked up once, because the name service may take seconds."""
    return socket.getfqdn(socket.gethostname())


def _own_address() -> str:
    """Return a pod's address, because its name need not resolve, or else the name of this host."""
    return os.environ.get(constants.ENV_POD_IP) or _get_fq_hostname()


def _get_socket_with_port() -> socket.socket:
    """Return a socket bound to a free port of all interfaces."""
    return socket.create_server(("", 0))
